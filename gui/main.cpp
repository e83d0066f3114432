#include "gui/window/viewer_command.h"

int main(int argc, char** argv) {
    return pipescope::runViewer(argc, argv);
}
