#include "cli/pipescope_program.h"
#include "cli/program.h"

int main(int argc, char** argv) {
    return pipescope::run_main(&pipescope::run_pipescope, argc, argv);
}
