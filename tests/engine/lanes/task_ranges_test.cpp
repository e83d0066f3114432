#include "engine/lanes/task_ranges.h"

#include "engine/lanes/worker.h"

#include <gmock/gmock.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

// This program is its own NVTX tool, found by NVTX under this name.
#define NVTX_STATIC_INJECTION_IMPL
extern "C" {
extern int (*InitializeInjectionNvtx2_fnptr)(const void* (*get_export_table)(std::uint32_t));
}
#include <nvtx3/nvToolsExt.h>

namespace pipescope {
namespace {
struct Heard {
    std::string domain;
    std::map<std::uintptr_t, std::string> strings;
    std::vector<std::string> ranges;  // "forward <payload>" at push, "end" at pop
    std::vector<std::string> threads;
    std::vector<std::string> resources;  // "<type> <address> <name>"
};
std::mutex mutex;
Heard heard;  // guarded by mutex

nvtxDomainHandle_t create_domain(const char* name) {
    const std::lock_guard lock(mutex);
    heard.domain = name;
    return reinterpret_cast<nvtxDomainHandle_t>(1);
}
nvtxStringHandle_t register_string(nvtxDomainHandle_t, const char* text) {
    const std::lock_guard lock(mutex);
    const std::uintptr_t handle = heard.strings.size() + 1;
    heard.strings[handle] = text;
    return reinterpret_cast<nvtxStringHandle_t>(handle);
}
int push(nvtxDomainHandle_t, const nvtxEventAttributes_t* attributes) {
    const std::lock_guard lock(mutex);
    EXPECT_EQ(attributes->messageType, NVTX_MESSAGE_TYPE_REGISTERED);
    EXPECT_EQ(attributes->payloadType, NVTX_PAYLOAD_TYPE_UNSIGNED_INT64);
    const auto name = heard.strings[reinterpret_cast<std::uintptr_t>(attributes->message.registered)];
    heard.ranges.push_back(name + " " + to_string(unpack(attributes->payload.ullValue).value()));
    return 0;
}
int pop(nvtxDomainHandle_t) {
    const std::lock_guard lock(mutex);
    heard.ranges.emplace_back("end");
    return 0;
}
void name_thread(std::uint32_t, const char* name) {
    const std::lock_guard lock(mutex);
    heard.threads.emplace_back(name);
}

nvtxResourceHandle_t create_resource(nvtxDomainHandle_t, nvtxResourceAttributes_t* attributes) {
    const std::lock_guard lock(mutex);
    heard.resources.push_back(std::to_string(attributes->identifierType) + " " +
                              std::to_string(attributes->identifier.ullValue) + " " + attributes->message.ascii);
    return nullptr;
}

template <class Function>
NvtxFunctionPointer pointer(Function* function) {
    return reinterpret_cast<NvtxFunctionPointer>(function);
}

int attach(NvtxGetExportTableFunc_t get_table) {
    const auto* const callbacks = static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
    NvtxFunctionTable table = nullptr;
    unsigned int size = 0;
    callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size);
    *table[NVTX_CBID_CORE2_DomainCreateA] = pointer(&create_domain);
    *table[NVTX_CBID_CORE2_DomainRegisterStringA] = pointer(&register_string);
    *table[NVTX_CBID_CORE2_DomainRangePushEx] = pointer(&push);
    *table[NVTX_CBID_CORE2_DomainResourceCreate] = pointer(&create_resource);
    *table[NVTX_CBID_CORE2_DomainRangePop] = pointer(&pop);
    callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, &size);
    *table[NVTX_CBID_CORE_NameOsThreadA] = pointer(&name_thread);
    return 1;
}

TEST(TaskRange, CarriesTheKindAsRegisteredStringAndTheKeyAsPayload) {
    prepare_task_ranges();
    prepare_task_ranges();
    ASSERT_TRUE(task_ranges_enabled);
    EXPECT_EQ(heard.domain, "pipescope");
    EXPECT_EQ(heard.strings.size(), static_cast<std::size_t>(kNumTaskKinds)) << "registered once";
    {
        const TaskRange forward(TaskKey{3, TaskKind::forward, 1, 2, -1});
        const TaskRange copy(TaskKey{3, TaskKind::copy_forward, 1, 2, -1});
    }
    EXPECT_THAT(heard.ranges, testing::ElementsAre("forward step 3 forward (2, 1)",
                                                   "copy_forward step 3 copy_forward (2, 1)", "end", "end"));
}

TEST(TaskRange, NamesCudaStreamsAsResources) {
    prepare_task_ranges();
    name_cuda_stream_for_profilers(reinterpret_cast<const void*>(std::uintptr_t{77}), "lane 2");
    EXPECT_THAT(heard.resources, testing::ElementsAre("262147 77 lane 2")) << "(4 << 16) | 3: a stream of the driver";
}

TEST(Worker, NamesItsThreadForProfilers) {
    {
        const Worker worker("lane 4", [] {});
    }
    EXPECT_THAT(heard.threads, testing::Contains("lane 4"));
}
}  // namespace
}  // namespace pipescope

extern "C" {
NvtxInitializeInjectionNvtxFunc_t InitializeInjectionNvtx2_fnptr = &pipescope::attach;
}
