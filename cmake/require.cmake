# keel_require(PREFIX MODULE WHAT DEBIAN FEDORA): pkg_check_modules with an imported target, which says what to install where the
# module is missing. A macro, since what pkg_check_modules sets belongs to the caller.
macro(keel_require prefix module what debian fedora)
  string(REGEX REPLACE "[<>=].*" "" KEEL_FORMULA "${module}") # Homebrew's name
  find_package(PkgConfig QUIET)
  if(NOT PKG_CONFIG_FOUND)
    message(FATAL_ERROR "${what} is looked for by pkg-config, which is not installed.\n"
      "Debian, Ubuntu: apt install pkg-config ${debian}\nFedora: dnf install pkgconf ${fedora}\nmacOS: brew install pkgconf ${KEEL_FORMULA}")
  endif()
  pkg_check_modules(${prefix} IMPORTED_TARGET "${module}")
  if(NOT ${prefix}_FOUND)
    message(FATAL_ERROR "${what}: pkg-config does not find ${module}.\n"
      "Debian, Ubuntu: apt install ${debian}\nFedora: dnf install ${fedora}\nmacOS: brew install ${KEEL_FORMULA}\n"
      "In a folder of its own: PKG_CONFIG_PATH names the folder of its .pc file.")
  endif()
endmacro()
