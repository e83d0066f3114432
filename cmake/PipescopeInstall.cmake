# What `cmake --install` puts where. Component programs: the commands. Component development: headers, the libraries
# that train (without viewer and recorder), and the package that find_package(pipescope) finds; a user's own model needs
# that one only.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(pipescope_programs pipescope)
foreach(program IN ITEMS pipescope-torch pipescope-gui)
  if(TARGET ${program})
    list(APPEND pipescope_programs ${program})
  endif()
endforeach()
install(TARGETS ${pipescope_programs} RUNTIME COMPONENT programs)
install(TARGETS pipescope_inject LIBRARY COMPONENT programs)

# The program writes its completions and its manual page itself, so that they have the options that there are.
set(pipescope_texts "${PROJECT_BINARY_DIR}/installed-texts")
install(CODE "set(texts \"${pipescope_texts}\")" COMPONENT programs)
install(CODE [[
  file(MAKE_DIRECTORY "${texts}")
  foreach(shell IN ITEMS bash zsh fish)
    execute_process(COMMAND "$<TARGET_FILE:pipescope>" --print-completion ${shell} OUTPUT_FILE "${texts}/${shell}"
                    COMMAND_ERROR_IS_FATAL ANY)
  endforeach()
  execute_process(COMMAND "$<TARGET_FILE:pipescope>" --print-man OUTPUT_FILE "${texts}/man" COMMAND_ERROR_IS_FATAL ANY)
]] COMPONENT programs)
foreach(text IN ITEMS
    "bash:bash-completion/completions/pipescope" "zsh:zsh/vendor-completions/_pipescope"
    "fish:fish/vendor_completions.d/pipescope.fish" "man:man/man1/pipescope.1")
  string(REPLACE ":" ";" text "${text}")
  list(GET text 0 source)
  list(GET text 1 target)
  cmake_path(GET target PARENT_PATH folder)
  cmake_path(GET target FILENAME name)
  install(FILES "${pipescope_texts}/${source}" DESTINATION "${CMAKE_INSTALL_DATADIR}/${folder}" RENAME "${name}"
          COMPONENT programs)
endforeach()
if(TARGET pipescope-gui)
  install(FILES "${PROJECT_SOURCE_DIR}/packaging/pipescope.desktop" DESTINATION "${CMAKE_INSTALL_DATADIR}/applications"
          COMPONENT programs)
  install(FILES "${PROJECT_SOURCE_DIR}/packaging/pipescope.svg"
          DESTINATION "${CMAKE_INSTALL_DATADIR}/icons/hicolor/scalable/apps" COMPONENT programs)
  install(FILES "${PROJECT_SOURCE_DIR}/packaging/pipescope-mime.xml" DESTINATION "${CMAKE_INSTALL_DATADIR}/mime/packages"
          RENAME pipescope.xml COMPONENT programs)
endif()

if(PIPESCOPE_TORCH)
  set(pipescope_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/pipescope")
  set(pipescope_installed_libraries schedule balance engine_lanes layer engine models)
  foreach(library IN LISTS pipescope_installed_libraries)
    set_target_properties(pipescope_${library} PROPERTIES EXPORT_NAME ${library})
    target_include_directories(pipescope_${library} PUBLIC "$<INSTALL_INTERFACE:include/pipescope>")
    target_compile_features(pipescope_${library} PUBLIC cxx_std_20)
    install(TARGETS pipescope_${library} EXPORT pipescope ARCHIVE COMPONENT development)
  endforeach()
  set_target_properties(pipescope_user_model PROPERTIES EXPORT_NAME user_model)
  install(TARGETS pipescope_user_model EXPORT pipescope)

  foreach(folder IN ITEMS schedule balance engine models)
    install(DIRECTORY "${PROJECT_SOURCE_DIR}/${folder}" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/pipescope"
            COMPONENT development FILES_MATCHING PATTERN "*.h")
  endforeach()

  install(EXPORT pipescope NAMESPACE pipescope:: FILE pipescope-targets.cmake DESTINATION "${pipescope_package_dir}"
          COMPONENT development)
  # A process has one torch: a model is built against the one PipeScope was built with, wherever that lies.
  get_filename_component(PIPESCOPE_LIBTORCH_ROOT "${LIBTORCH_LIBRARY_DIR}" DIRECTORY)
  configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/pipescope-config.cmake.in"
    "${PROJECT_BINARY_DIR}/pipescope-config.cmake" INSTALL_DESTINATION "${pipescope_package_dir}")
  write_basic_package_version_file("${PROJECT_BINARY_DIR}/pipescope-config-version.cmake"
    COMPATIBILITY SameMinorVersion)
  install(FILES "${PROJECT_BINARY_DIR}/pipescope-config.cmake" "${PROJECT_BINARY_DIR}/pipescope-config-version.cmake"
                "${PROJECT_SOURCE_DIR}/cmake/FindLibTorch.cmake"
          DESTINATION "${pipescope_package_dir}" COMPONENT development)
endif()
