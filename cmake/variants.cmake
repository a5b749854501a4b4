# keel_keep_apart(VARIANT LIST): the objects of keel_cpu_VARIANT, whose names are those of all variants, made fit to be linked beside the
# others, appended to LIST.
function(keel_keep_apart variant list)
  if(APPLE)
    # Its linker joins objects, but no tool of it renames what is in them. So the names are others from the first: a header that
    # is included before all else gives each a suffix. It is made from the names in the objects of the base variant.
    set(header ${PROJECT_BINARY_DIR}/made/names_${variant}.h)
    set(base ${PROJECT_BINARY_DIR}/made/base)
    file(GENERATE OUTPUT ${base}_objects_${variant}.txt CONTENT "$<JOIN:$<TARGET_OBJECTS:keel_cpu_base>,\n>\n")
    file(GENERATE OUTPUT ${base}_sources_${variant}.txt CONTENT "$<JOIN:$<TARGET_PROPERTY:keel_cpu_base,SOURCES>,\n>\n")
    add_custom_command(OUTPUT ${header}
      COMMAND ${CMAKE_COMMAND} -DNM=${CMAKE_NM} -DOUT=${header} -DVARIANT=${variant} -DOBJECTS=${base}_objects_${variant}.txt
              -DSOURCES=${base}_sources_${variant}.txt -P ${PROJECT_SOURCE_DIR}/cmake/names.cmake
      DEPENDS keel_cpu_base $<TARGET_OBJECTS:keel_cpu_base> ${PROJECT_SOURCE_DIR}/cmake/names.cmake VERBATIM)
    add_custom_target(keel_names_${variant} DEPENDS ${header})
    add_dependencies(keel_cpu_${variant} keel_names_${variant})
    target_compile_options(keel_cpu_${variant} PRIVATE -include ${header})
    list(APPEND ${list} $<TARGET_OBJECTS:keel_cpu_${variant}>)
  else()
    # They are joined into one object, in which all names are local but two: where there is no base variant nothing has the same names, and they stay.
    set(joined ${PROJECT_BINARY_DIR}/keel_cpu_${variant}.o)
    set(entries)
    foreach(name kl_cpu_variant_kernel kl_cpu_variant_run_fusion)
      list(APPEND entries --redefine-sym ${name}=${name}_${variant})
      if(base IN_LIST KEEL_VARIANT_NAMES)
        list(APPEND entries --keep-global-symbol=${name}_${variant})
      endif()
    endforeach()
    add_custom_command(OUTPUT ${joined}
      COMMAND ${CMAKE_LINKER} -r -o ${joined} $<TARGET_OBJECTS:keel_cpu_${variant}>
      COMMAND ${CMAKE_OBJCOPY} ${entries} ${joined}
      DEPENDS keel_cpu_${variant} $<TARGET_OBJECTS:keel_cpu_${variant}> COMMAND_EXPAND_LISTS VERBATIM)
    list(APPEND ${list} ${joined})
  endif()
  set(${list} ${${list}} PARENT_SCOPE)
endfunction()
