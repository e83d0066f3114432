#pragma once

#include "tests/fake_accelerator/fake_stream.h"

#include <c10/core/Device.h>
#include <c10/core/DeviceType.h>
#include <c10/core/Stream.h>

#include <cstdint>

namespace pipescope::fake_accelerator {
/// A device of torch's PrivateUse1 type, called "fake", that behaves like a GPU in threads, streams and memory. It
/// allows tests of everything that the engine does on an accelerator:
///
/// - Streams are queues with their own threads, and events are points in them. Work that does not wait for its event
///   reads memory that was not yet written.
/// - Memory comes from a caching allocator: freed memory immediately returns to the stream it was allocated for. Memory
///   is NaN until it is written; reused memory is set to NaN by its stream when it is allocated again. A tensor that is
///   freed while another stream still reads it thus soon shows as NaN. Each allocation and free is reported to torch's
///   memory profiler, rounded up to 512 bytes, as by CUDA's allocator.
/// - Uses of memory that no event orders are detected when they are enqueued, whatever the timing (fake_races.h).
/// - Copies behave as with CUDA. One between two devices runs on the source's current stream, with a barrier with the
///   destination's. One from pinned memory is asynchronous. One from or to other host memory blocks.
/// - Every operator runs the CPU's kernel on the current stream. Shapes come from its meta kernel; without one, the
///   caller waits for the stream.
/// - Random numbers derive from a number that the generator gives when the kernel is launched.
///
/// Devices are "fake:0" and "fake:1". Linking this library installs them, before main().
inline constexpr c10::DeviceIndex kNumDevices = 2;
inline constexpr c10::DeviceType kType = c10::DeviceType::PrivateUse1;

/// Idempotent. Called before main(). A program may call it to make sure that the library is linked.
void install();

/// The queue behind a torch stream.
Stream& stream_of(const c10::Stream& stream);
/// The calling thread's current stream on the device.
Stream& current_stream(c10::DeviceIndex device);

/// While it lives, the calling thread stands for a process: its current streams are those of a rank from 0 to 3, not
/// the default ones, which it follows, and which go on after it.
class RankStreams {
public:
    explicit RankStreams(int rank);
    ~RankStreams();
    RankStreams(const RankStreams&) = delete;
    RankStreams& operator=(const RankStreams&) = delete;

private:
    const c10::StreamId id_;
};

/// Waits for all streams of all devices.
void synchronize();

/// Bytes held by tensors on the device.
std::int64_t allocated_bytes(c10::DeviceIndex device);
/// Number of allocated blocks of pinned host memory so far.
std::int64_t pinned_blocks();
/// Number of copies between memories so far, of any kind; kernels in between do not count.
std::int64_t copies();
void count_copy();
bool is_pinned(const void* data);
}  // namespace pipescope::fake_accelerator
