#include "profiler/recorder/kernel_name.h"

#include <gtest/gtest.h>

namespace pipescope {
namespace {
TEST(KernelName, LeavesOutArgumentsTemplatesAndNamespaces) {
    const KernelName name = kernel_name("_ZN2at6native12_GLOBAL__N_13addIfLi4EEEvPT_i");
    EXPECT_EQ(name.demangled, "void at::native::(anonymous namespace)::add<float, 4>(float*, int)");
    EXPECT_EQ(name.brief, "add");
    EXPECT_EQ(kernel_name("_Z12saxpy_kerneljfPKfPf").brief, "saxpy_kernel");
}

TEST(KernelName, KeepsANameThatIsNotMangled) {
    EXPECT_EQ(kernel_name("sm90_xmma_gemm_f32").brief, "sm90_xmma_gemm_f32");
    EXPECT_EQ(kernel_name("i").demangled, "i");  // not "int"
    EXPECT_EQ(kernel_name("(unknown kernel)").brief, "(unknown kernel)");
    EXPECT_EQ(kernel_name("").brief, "");
}
}  // namespace
}  // namespace pipescope
