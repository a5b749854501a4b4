# cmake -DOUT=kernels.c -DDIR=src/backend/gpu/kernels -P embed.cmake: every kernel source as a string, kl_source_<name>.
file(GLOB files ${DIR}/*.kl)
set(text "/* Made by cmake/embed.cmake from the files of src/backend/gpu/kernels. */\n")
foreach(file ${files})
  get_filename_component(name ${file} NAME_WE)
  file(READ ${file} body)
  # Comments are for readers of the files; the library is 20 KB smaller without them.
  string(REGEX REPLACE "/\\*([^*]|\\*+[^*/])*\\*+/" "" body "${body}")
  string(REPLACE "\\" "\\\\" body "${body}")
  string(REPLACE "\"" "\\\"" body "${body}")
  string(REPLACE "\n" "\\n\"\n\"" body "${body}")
  string(APPEND text "extern const char kl_source_${name}[];\nconst char kl_source_${name}[] = \"${body}\";\n")
endforeach()
file(WRITE ${OUT} "${text}")
