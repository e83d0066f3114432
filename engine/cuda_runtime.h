#pragma once

#include <string>

namespace pipescope {
/// Lets a program that is linked with torch's CPU half use CUDA, so that one build serves machines with and without a
/// GPU: if there is a CUDA driver with a device, loads libtorch_cuda.so, which registers itself.
///
/// Call it first in main(), before any use of torch. Torch asks only once whether there is CUDA, and starts one
/// autograd thread per device known by then. Loading takes a second or two. Returns true if CUDA devices can be used;
/// why_no_cuda() gives the reason if not. The environment variable PIPESCOPE_CUDA=0 disables CUDA. Idempotent; not for
/// several threads at once.
bool load_cuda();

/// Names what CUDA devices lack: "no CUDA driver was found (libcuda.so.1)". Empty once CUDA is loaded.
std::string why_no_cuda();
}  // namespace pipescope
