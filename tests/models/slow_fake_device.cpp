// Makes the fake accelerator of a whole program slow, and lets the program fail if two streams have used memory in no
// order.

#include "tests/fake_accelerator/fake_device.h"

#include <cstdio>
#include <cstdlib>
#include <string>

namespace {
using namespace pipescope;

struct Program {
    Program() {
        fake_accelerator::behaviour().kernel_delay_us = 20;
        fake_accelerator::behaviour().copy_delay_us = 300;
    }
    ~Program() {
        for (const std::string& race : fake_accelerator::take_races()) {
            std::printf("race: %s\n", race.c_str());
        }
        std::fflush(stdout);
    }
    Program(const Program&) = delete;
    Program& operator=(const Program&) = delete;
};
const Program program;
}  // namespace
