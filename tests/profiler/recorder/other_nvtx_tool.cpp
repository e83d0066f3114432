// Another NVTX tool: counts pushes and prints their number at the end of the process.

#define NVTX_NO_IMPL
#define NVTX_STATIC_INJECTION_IMPL
#include <nvtx3/nvToolsExt.h>

#include <atomic>
#include <cstdint>
#include <cstdio>

namespace {
std::atomic<int> pushes{0};

int count_push(const char*) {
    return pushes++;
}

struct Report {
    ~Report() { std::printf("other tool: %d pushes\n", pushes.load()); }
} const report;
}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    NvtxGetExportTableFunc_t get_export_table) {
    const auto* callbacks = static_cast<const NvtxExportTableCallbacks*>(get_export_table(NVTX_ETID_CALLBACKS));
    NvtxFunctionTable table = nullptr;
    unsigned size = 0;
    if (callbacks == nullptr || callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, &size) == 0 ||
        size <= NVTX_CBID_CORE_RangePushA) {
        return 0;
    }
    *table[NVTX_CBID_CORE_RangePushA] = reinterpret_cast<NvtxFunctionPointer>(count_push);
    return 1;
}
