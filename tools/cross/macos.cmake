# For CMake: programs for macOS 13 and later, by what tools/cross/macos.sh made in build/macos: a compiler and a folder that stands for
# Apple's SDK. KEEL_CROSS_CPU is arm64 or x86_64.
set(CMAKE_SYSTEM_NAME Darwin)
set(CMAKE_SYSTEM_VERSION 22.0) # the kernel of macOS 13
set(CMAKE_SYSTEM_PROCESSOR ${KEEL_CROSS_CPU})
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES KEEL_CROSS_CPU)
get_filename_component(KEEL_CROSS_MADE "${CMAKE_CURRENT_LIST_DIR}/../../build/macos" ABSOLUTE)
set(CMAKE_C_COMPILER ${KEEL_CROSS_MADE}/clang-${KEEL_CROSS_CPU})
foreach(tool AR:ar RANLIB:ranlib NM:nm STRIP:strip INSTALL_NAME_TOOL:install-name-tool)
  string(REPLACE ":" ";" tool ${tool})
  list(GET tool 0 variable)
  list(GET tool 1 name)
  set(CMAKE_${variable} ${KEEL_CROSS_MADE}/llvm/llvm-${name} CACHE FILEPATH "")
endforeach()
# CMake asks the system on which it runs whether its macOS is new enough for this, and takes it back: so this file is read again after
# what CMake knows of the system.
set(CMAKE_USER_MAKE_RULES_OVERRIDE ${CMAKE_CURRENT_LIST_FILE})
set(CMAKE_SHARED_LIBRARY_RUNTIME_C_FLAG "-Wl,-rpath,")
set(CMAKE_OSX_SYSROOT ${KEEL_CROSS_MADE}/sdk CACHE PATH "")
set(CMAKE_OSX_ARCHITECTURES ${KEEL_CROSS_CPU} CACHE STRING "")
set(CMAKE_OSX_DEPLOYMENT_TARGET 13.0 CACHE STRING "")
set(CMAKE_FIND_ROOT_PATH ${KEEL_CROSS_MADE}/${KEEL_CROSS_CPU}/root)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_LIBDIR} ${KEEL_CROSS_MADE}/${KEEL_CROSS_CPU}/root/lib/pkgconfig)
