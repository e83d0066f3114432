# What `cmake --install` puts where. Component programs: the commands. Component development: public headers, the
# libraries of both package components (core, and engine with torch), and the package that find_package(pipescope) finds.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
include(PipescopePublicHeaders)

set(pipescope_programs pipescope)
foreach(program IN ITEMS pipescope-torch pipescope-gui)
  if(TARGET ${program})
    list(APPEND pipescope_programs ${program})
  endif()
endforeach()
install(TARGETS ${pipescope_programs} RUNTIME COMPONENT programs)
install(TARGETS pipescope_inject LIBRARY COMPONENT programs)
if(TARGET pipescope_nccl)
  install(TARGETS pipescope_nccl LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT programs)
endif()

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

set(pipescope_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/pipescope")
# pipescope_install_component(<name> HEADERS .. LIBRARIES ..): headers, libraries and pipescope-<name>-targets.cmake.
function(pipescope_install_component name)
  cmake_parse_arguments(ARG "" "" "HEADERS;LIBRARIES" ${ARGN})
  foreach(library IN LISTS ARG_LIBRARIES)
    set_target_properties(pipescope_${library} PROPERTIES EXPORT_NAME ${library})
    target_include_directories(pipescope_${library} INTERFACE "$<INSTALL_INTERFACE:include>")
    target_compile_features(pipescope_${library} INTERFACE cxx_std_20)
    install(TARGETS pipescope_${library} EXPORT pipescope-${name} ARCHIVE COMPONENT development)
  endforeach()
  pipescope_install_headers(${name} ${ARG_HEADERS})
  install(EXPORT pipescope-${name} NAMESPACE pipescope:: FILE pipescope-${name}-targets.cmake
          DESTINATION "${pipescope_package_dir}" COMPONENT development)
endfunction()

add_library(pipescope_core INTERFACE)
target_link_libraries(pipescope_core INTERFACE pipescope_simulator pipescope_trace)
pipescope_install_component(core
  HEADERS ${PIPESCOPE_CORE_HEADERS}
  LIBRARIES base schedule profile hardware balance simulator trace core)
if(PIPESCOPE_TORCH)
  pipescope_install_component(engine
    HEADERS ${PIPESCOPE_ENGINE_HEADERS}
    LIBRARIES save engine_lanes engine_layer engine models user_model)
  # A process has one torch: a model is built against the one PipeScope was built with, wherever that lies.
  get_filename_component(PIPESCOPE_LIBTORCH_ROOT "${LIBTORCH_LIBRARY_DIR}" DIRECTORY)
endif()
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/pipescope-config.cmake.in"
  "${PROJECT_BINARY_DIR}/pipescope-config.cmake" INSTALL_DESTINATION "${pipescope_package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/pipescope-config-version.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/pipescope-config.cmake" "${PROJECT_BINARY_DIR}/pipescope-config-version.cmake"
              "${PROJECT_SOURCE_DIR}/cmake/FindLibTorch.cmake" "${PROJECT_SOURCE_DIR}/cmake/FindRE2.cmake"
        DESTINATION "${pipescope_package_dir}" COMPONENT development)
