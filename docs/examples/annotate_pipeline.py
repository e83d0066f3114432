"""Names the tasks of torch.distributed.pipelining for the profiler: call annotate() once, before training.

Schedule1F1B gives its tasks no names, and other schedules' ranges hold the wait for a message. These ranges hold the
computation alone: PP:2F5 is the forward of micro-batch 5 on stage 2.
"""

import functools

from torch.distributed.pipelining.stage import PipelineStage
from torch.profiler import record_function


def annotate(stage_class=PipelineStage):
    def wrap(method, letter_of):
        original = getattr(stage_class, method)

        @functools.wraps(original)
        def named(self, chunk, *args, **kwargs):
            with record_function(f"PP:{self.stage_index}{letter_of(kwargs)}{chunk}"):
                return original(self, chunk, *args, **kwargs)

        setattr(stage_class, method, named)

    wrap("forward_one_chunk", lambda kwargs: "F")
    wrap("backward_one_chunk", lambda kwargs: "B" if kwargs.get("full_backward", True) else "I")
    wrap("backward_weight_one_chunk", lambda kwargs: "W")
