#include "cli/pipescope_program.h"

int main(int argc, char** argv) {
    return pipescope::run_pipescope(argc, argv);
}
