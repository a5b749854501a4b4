# What `make install` lays down: headers, libkeel, and the same library under the name libmlxc (symlink, pkg-config file, CMake package), so
# that a program built for mlx-c links without a change.
install(TARGETS keel EXPORT keelTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(KEEL_STATIC)
  install(TARGETS keel_static ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
target_include_directories(keel INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
install(DIRECTORY include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")

set(KEEL_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake)
install(EXPORT keelTargets NAMESPACE keel:: DESTINATION ${KEEL_CMAKE_DIR}/keel)
file(WRITE ${PROJECT_BINARY_DIR}/keelConfig.cmake "include(\"\${CMAKE_CURRENT_LIST_DIR}/keelTargets.cmake\")\n")
# mlx-c's package makes a target called mlxc.
file(WRITE ${PROJECT_BINARY_DIR}/mlxcConfig.cmake
  "include(\"\${CMAKE_CURRENT_LIST_DIR}/../keel/keelTargets.cmake\")\nif(NOT TARGET mlxc)\n  add_library(mlxc INTERFACE IMPORTED)\n  set_target_properties(mlxc PROPERTIES INTERFACE_LINK_LIBRARIES keel::keel)\nendif()\nset(MLXC_LIBRARIES mlxc)\n")
write_basic_package_version_file(${PROJECT_BINARY_DIR}/keelConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/keelConfig.cmake ${PROJECT_BINARY_DIR}/keelConfigVersion.cmake
  DESTINATION ${KEEL_CMAKE_DIR}/keel)
install(FILES ${PROJECT_BINARY_DIR}/mlxcConfig.cmake DESTINATION ${KEEL_CMAKE_DIR}/mlxc)

foreach(name keel mlxc)
  # The prefix is that of the installation, which cmake --install --prefix may change.
  file(WRITE ${PROJECT_BINARY_DIR}/${name}.pc.in
"prefix=@KEEL_PREFIX@
libdir=\${prefix}/${CMAKE_INSTALL_LIBDIR}
includedir=\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}

Name: ${name}
Description: Keel, an array framework with the MLX C API
Version: ${PROJECT_VERSION}
Libs: -L\${libdir} -l${name}
Cflags: -I\${includedir}
")
  install(CODE "
    get_filename_component(KEEL_PREFIX \"\${CMAKE_INSTALL_PREFIX}\" ABSOLUTE)
    configure_file(\"${PROJECT_BINARY_DIR}/${name}.pc.in\"
      \"\$ENV{DESTDIR}\${KEEL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/pkgconfig/${name}.pc\" @ONLY)")
endforeach()
install(CODE "
  foreach(link libmlxc${CMAKE_SHARED_LIBRARY_SUFFIX} libmlxc$<IF:$<BOOL:${APPLE}>,.0.dylib,.so.0>)
    execute_process(COMMAND \${CMAKE_COMMAND} -E create_symlink $<TARGET_SONAME_FILE_NAME:keel>
      \$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/\${link})
  endforeach()")
