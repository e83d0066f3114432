// Built only with CUDA's headers, because NVTX's functions that name CUDA streams use CUDA's types.

#include "recorded_trace.h"

#include <gtest/gtest.h>
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtCudaRt.h>
#include <nvtx3/nvToolsExtSync.h>

namespace pipescope {
namespace {
TEST(Recorder, KeepsNamesOfStreamsAndResources) {
    const nvtxDomainHandle_t domain = nvtxDomainCreateA("of resources");
    int mutex = 0;
    const RecordedTrace trace([&](Recorder&) {
        nvtxNameCudaStreamA(reinterpret_cast<cudaStream_t>(std::uintptr_t{0x77}), "copies");
        nvtxNameCudaDeviceW(1, L"zw\u00f6lf");
        nvtxResourceAttributes_t resource{};
        resource.version = NVTX_VERSION;
        resource.size = NVTX_RESOURCE_ATTRIB_STRUCT_SIZE;
        resource.identifierType = NVTX_RESOURCE_TYPE_SYNC_PTHREAD_MUTEX;
        resource.identifier.pValue = &mutex;
        resource.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
        resource.message.registered = nvtxDomainRegisterStringA(domain, "the lock");
        nvtxDomainResourceDestroy(nvtxDomainResourceCreate(domain, &resource));
        nvtxDomainDestroy(domain);
    });
    EXPECT_EQ(trace.text("SELECT name FROM PIPESCOPE_RESOURCE WHERE kind = 'CUDA stream' AND identifier = 0x77"),
              "copies");
    EXPECT_EQ(trace.text("SELECT name FROM PIPESCOPE_RESOURCE WHERE kind = 'CUDA device' AND identifier = 1"),
              "zw\u00f6lf");
    EXPECT_EQ(trace.text("SELECT r.name || ' of ' || d.text FROM PIPESCOPE_RESOURCE AS r JOIN NVTX_EVENTS AS d ON "
                         "d.eventType = 75 AND d.domainId = r.domainId WHERE r.kind = 'pthread mutex'"),
              "the lock of of resources");
    EXPECT_EQ(trace.text("SELECT c.text FROM NVTX_EVENTS AS d JOIN NVTX_EVENTS AS c ON c.domainId = d.domainId AND "
                         "c.eventType = 75 WHERE d.eventType = 76"),
              "of resources");
}
}  // namespace
}  // namespace pipescope
