#pragma once

#include <string>

namespace pipescope {
/// Lets torch find CUDA in a program that is linked with its CPU half only, so that one build serves machines with and
/// without a GPU: where a CUDA driver with a device is found, libtorch_cuda.so is loaded, which registers itself.
///
/// Call it first thing in main(), before anything of torch: torch asks once whether there is CUDA, and starts its
/// autograd threads once, one for each device it knows then. Takes a second or two where it loads, no time elsewhere.
/// Returns whether CUDA devices can be used; why_no_cuda() says why not. The environment variable PIPESCOPE_CUDA=0
/// keeps CUDA out. Idempotent; not for several threads at once.
bool load_cuda();

/// What is missing for CUDA devices: "no CUDA driver was found (libcuda.so.1)". Empty once CUDA is loaded.
std::string why_no_cuda();
}  // namespace pipescope
