#include "cli/program.h"
#include "cli/torch/torch_program.h"

int main(int argc, char** argv) {
    return pipescope::run_main(&pipescope::run_pipescope_torch, argc, argv);
}
