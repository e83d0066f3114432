#pragma once

namespace pipescope {
/// Whether NVTX has handed its functions to us: it does so at the program's first NVTX call, once per executable and
/// shared library, unless the environment names another tool.
bool nvtx_handler_attached();
}  // namespace pipescope
