#include <nvtx3/nvToolsExt.h>

#include <cstdio>
#include <cstdlib>

// Names nothing of the recorder: NVTX itself must have found the handler that was linked in.
int main() {
    unsetenv("NVTX_INJECTION64_PATH");
    if (nvtxDomainCreateA("some domain") == nullptr) {  // NVTX's answer where no tool attached
        std::puts("the NVTX handler was not attached");
        return 1;
    }
    return 0;
}
