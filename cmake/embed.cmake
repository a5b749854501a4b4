# cmake -DOUT=folder -DDIR=src/backend/gpu/kernels -P embed.cmake: every kernel source as a string,
# kl_source_<name>, in folder/kernels.c and declared in folder/backend/gpu/lower/kernels.h.
file(GLOB files ${DIR}/*.kl)
set(head "/* kernels.h - the sources in kernels/ as strings. Made by cmake/embed.cmake. */\n#pragma once\n")
set(text "/* Made by cmake/embed.cmake from the files of src/backend/gpu/kernels. */\n#include \"backend/gpu/lower/kernels.h\"\n")
foreach(file ${files})
  get_filename_component(name ${file} NAME_WE)
  file(READ ${file} body)
  # Comments and indentation are for readers of the files; the library is 50 KB smaller without.
  string(REGEX REPLACE "/\\*([^*]|\\*+[^*/])*\\*+/" "" body "${body}")
  string(REGEX REPLACE "\n +" "\n" body "${body}")
  string(REGEX REPLACE "  +\\\\\n" " \\\\\n" body "${body}")
  string(REPLACE "\\" "\\\\" body "${body}")
  string(REPLACE "\"" "\\\"" body "${body}")
  string(REPLACE "\n" "\\n\"\n\"" body "${body}")
  string(APPEND head "extern const char kl_source_${name}[];\n")
  string(APPEND text "const char kl_source_${name}[] = \"${body}\";\n")
endforeach()
file(WRITE ${OUT}/kernels.c "${text}")
# An unchanged header keeps its time: what includes it is not compiled again for a changed kernel.
file(CONFIGURE OUTPUT ${OUT}/backend/gpu/lower/kernels.h CONTENT "${head}" @ONLY)
