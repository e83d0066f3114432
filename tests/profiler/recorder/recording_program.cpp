#include "profiler/recorder/recorder.h"
#include "range_emitter.h"

/// Records one range into the trace given as argument.
int main(int argc, char** argv) {
    if (argc != 2) {
        return 2;
    }
    pipescope::RecorderOptions options;
    options.path = argv[1];
    options.devices = false;
    pipescope::Recorder recorder(options);
    pipescope::emit_range_from_library();
    recorder.stop();
    return 0;
}
