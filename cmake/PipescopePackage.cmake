# A Debian package of the commands and the viewer without torch: scripts/package makes and tries it. With torch there is
# none: the LibTorch that it could depend on, Debian 12's, is much older than the engine's.

if(PIPESCOPE_TORCH)
  return()
endif()
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME pipescope)
set(CPACK_PACKAGE_CONTACT "the PipeScope authors <pipescope@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
    "Predicts step time, bubble and memory of pipeline-parallel training,
plans what to rent, and shows recorded and predicted timelines side by side.
Training itself needs LibTorch and a build from source.")
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL programs)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
include(CPack)
