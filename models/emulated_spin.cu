// The work of an emulated layer on a CUDA device: a kernel that waits. See emulated_device_wait.h.

#include <cuda_runtime.h>

namespace {
__device__ unsigned long long nanoseconds_now() {
    unsigned long long now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));  // the device's wall clock, whatever its frequency does
    return now;
}

__global__ void wait(unsigned long long nanoseconds) {
    const unsigned long long start = nanoseconds_now();
    while (nanoseconds_now() - start < nanoseconds) {
    }
}
}  // namespace

// The stream's device must be the current one. Returns the runtime's error; 0 is success.
extern "C" int pipescope_spin(void* stream, unsigned long long nanoseconds) {
    wait<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(nanoseconds);
    return static_cast<int>(cudaGetLastError());
}
