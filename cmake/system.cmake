# What differs between systems stands in files *_linux.c and *_macos.c of folders called platform, beside
# one header for both; tools/check/platform.sh looks for the names of a system elsewhere.
if(APPLE)
  set(KEEL_SYSTEM macos)
else()
  set(KEEL_SYSTEM linux)
endif()
# keel_of_this_system(LIST): takes the files of other systems out of a list of sources.
function(keel_of_this_system list)
  set(kept ${${list}})
  foreach(source ${kept})
    if(source MATCHES "/platform/[a-z0-9_]*_(linux|macos)\\.c$" AND NOT CMAKE_MATCH_1 STREQUAL KEEL_SYSTEM)
      list(REMOVE_ITEM kept ${source})
    endif()
  endforeach()
  set(${list} ${kept} PARENT_SCOPE)
endfunction()
