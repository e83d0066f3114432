#include "cli/torch/gpipe_options.h"

namespace pipescope {
GPipeOptions gpipe_options(const PipelineOptions& options) {
    const Hardware& hardware = options.hardware;
    GPipeOptions engine;
    engine.balance = options.balance.layers_per_partition();
    engine.devices = hardware.devices;
    engine.chunks = options.chunks;
    engine.checkpoint = options.checkpoint;
    engine.schedule = options.schedule;
    engine.replicas = options.replicas;
    for (const LaneId lane : options.placement) {
        engine.placement.push_back(lane.value());
    }
    engine.host_cores = hardware.host_cores > 0 ? hardware.host_cores : num_lanes(options);
    return engine;
}
}  // namespace pipescope
