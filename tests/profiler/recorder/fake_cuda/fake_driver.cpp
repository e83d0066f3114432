// A libcuda.so.1 with FAKE_CUDA_DEVICES devices (default 1), whose cuInit returns FAKE_CUDA_INIT (default 0).

#include <cuda.h>

#include <cstdlib>

namespace {
int setting(const char* name, int otherwise) {
    const char* text = std::getenv(name);
    return text == nullptr ? otherwise : std::atoi(text);
}
}  // namespace

extern "C" {
CUresult CUDAAPI cuInit(unsigned) {
    return static_cast<CUresult>(setting("FAKE_CUDA_INIT", 0));
}
CUresult CUDAAPI cuDeviceGetCount(int* count) {
    *count = setting("FAKE_CUDA_DEVICES", 1);
    return CUDA_SUCCESS;
}
CUresult CUDAAPI cuDriverGetVersion(int* version) {
    *version = 13000;
    return CUDA_SUCCESS;
}
}
