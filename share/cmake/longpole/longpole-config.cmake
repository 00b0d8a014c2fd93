# find_package(longpole) gives two targets:
#   longpole::longpole   the headers
#   longpole::auto       the same, and every function of whoever links it is recorded as a span (longpole/auto.h)
get_filename_component(_longpole_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET longpole::longpole)
  add_library(longpole::longpole INTERFACE IMPORTED)
  set_target_properties(longpole::longpole PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${_longpole_prefix}/include")
  add_library(longpole::auto INTERFACE IMPORTED)
  set_target_properties(longpole::auto PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${_longpole_prefix}/include"
    INTERFACE_COMPILE_OPTIONS "-finstrument-functions")
  # One file of each program or library has the hooks, in a language that the project has.
  get_property(_longpole_languages GLOBAL PROPERTY ENABLED_LANGUAGES)
  if(C IN_LIST _longpole_languages)
    set_target_properties(longpole::auto PROPERTIES INTERFACE_SOURCES "${CMAKE_CURRENT_LIST_DIR}/hooks.c")
  else()
    set_target_properties(longpole::auto PROPERTIES INTERFACE_SOURCES "${CMAKE_CURRENT_LIST_DIR}/hooks.cc")
  endif()
  unset(_longpole_languages)
endif()
unset(_longpole_prefix)
