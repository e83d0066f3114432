#pragma once

#include "engine/gpipe.h"
#include "simulator/pipeline_options.h"

namespace pipescope {
/// The pipeline as the engine runs it. Without host_cores, each lane has its own core: lanes that only wait do not need
/// any.
GPipeOptions gpipe_options(const PipelineOptions& options);
}  // namespace pipescope
