// The experiments behind tables of docs/: how accurate predictions are, and what each part of the paper's driver
// contributes.
//     pipescope_experiments validate|ablation [OPTIONS]

#include "benchmarks/experiments/experiment_commands.h"
#include "cli/program.h"
#include "cli/torch/torch_program.h"

int main(int argc, char** argv) {
    pipescope::prepare_torch();
    pipescope::Program program("pipescope_experiments", "Measure predictions and drivers on this machine",
                               PIPESCOPE_VERSION);
    pipescope::add_validate_command(program);
    pipescope::add_ablation_command(program);
    return program.run(argc, argv);
}
