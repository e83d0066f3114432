#include <nvtx3/nvToolsExt.h>

#include <cstdio>
#include <cstdlib>

// Does not refer to the recorder: NVTX itself must find the linked handler.
int main() {
    unsetenv("NVTX_INJECTION64_PATH");
    if (nvtxDomainCreateA("some domain") == nullptr) {  // NVTX's answer where no tool attached
        std::puts("the NVTX handler was not attached");
        return 1;
    }
    return 0;
}
