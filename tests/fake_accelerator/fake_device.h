#pragma once

#include "tests/fake_accelerator/fake_stream.h"

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <cstdint>

namespace pipescope::fake_accelerator {
/// A device of torch's PrivateUse1 type, called "fake", that behaves like a GPU as far as threads, streams and memory
/// go, so that everything the engine does on an accelerator is tested without one:
///
/// - streams are queues with a thread of their own, events are moments in them: work that is handed on without waiting
///   for its event reads memory that was not written yet;
/// - memory comes from a caching allocator: freed memory goes back to the stream it was allocated for, at once. Memory
///   is NaN until it is written; what was used before is made NaN by its stream when it is given out again. So a tensor
///   let go of while another stream still reads it soon shows up as NaN. Each block given out or taken back, its size
///   rounded up to 512 bytes, is reported to torch's memory profiler, as CUDA's allocator does;
/// - whatever the timing, uses of memory that no event orders are found when they are enqueued (fake_races.h);
/// - a copy between two devices runs on the current stream of the source and has a barrier with that of the
///   destination, a copy from pinned memory is asynchronous, one from or to other host memory blocks: as with CUDA;
/// - every operator runs as the CPU's, on the current stream; shapes come from its meta kernel, and where it has none
///   the caller waits for the stream;
/// - random numbers are drawn from a number that the generator gives when the kernel is launched.
///
/// Devices are "fake:0" and "fake:1". Linking this library installs them, before main().
inline constexpr c10::DeviceIndex kNumDevices = 2;

/// Idempotent. Called before main(); a program that wants to be sure that the library is linked calls it too.
void install();

/// The queue behind a stream of torch.
Stream& stream_of(const c10::Stream& stream);
/// The calling thread's current stream on the device.
Stream& current_stream(c10::DeviceIndex device);

/// Waits for all streams of all devices.
void synchronize();

/// Bytes that tensors hold on the device now.
std::int64_t allocated_bytes(c10::DeviceIndex device);
/// Blocks of pinned host memory given out so far.
std::int64_t pinned_blocks();
/// Copies between memories so far, of any kind; kernels in between do not count.
std::int64_t copies();
void count_copy();
bool is_pinned(const void* data);
}  // namespace pipescope::fake_accelerator
