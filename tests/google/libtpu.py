"""Google's own classes of libtpu's runtime metrics (tpu-info) on both sides of the console and its double.

libtpu.py serve: plays a host's libtpu on a free port, which it prints; ends with its standard input.
libtpu.py ask ADDRESS: asks a double as tpu-info does, and prints what it understood as JSON.
"""

import json
import sys
from concurrent import futures

import grpc
from tpu_info import device, metrics
from tpu_info.proto import tpu_metric_service_pb2 as wire
from tpu_info.proto import tpu_metric_service_pb2_grpc as service
from tpu_info.proto import tpu_telemetry_pb2 as cores

GIB = 1 << 30
# By device: two devices are a chip of v7x, so that memory is told of twice as many as the duty cycle is.
TOLD = {
    metrics.MetricName.DUTY_CYCLE_PCT: [("as_double", 97.25), ("as_double", 12.5)],
    metrics.MetricName.TOTAL_MEMORY: [("as_int", 96 * GIB)] * 4,
    metrics.MetricName.MEMORY_USAGE: [("as_int", n * GIB) for n in (1, 2, 3, 4)],
}


class Libtpu(service.RuntimeMetricServiceServicer):
    def GetRuntimeMetric(self, request, context):
        named = {name.value: values for name, values in TOLD.items()}
        if request.metric_name not in named:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such metric")
        metric = wire.TPUMetric(name=request.metric_name, description="as Google has it")
        # In no order.
        for number, (kind, value) in reversed(list(enumerate(named[request.metric_name]))):
            attribute = wire.Attribute(key="device-id", value=wire.AttrValue(int_attr=number))
            one = wire.Metric(attribute=attribute, gauge=wire.Gauge(**{kind: value}))
            one.timestamp.GetCurrentTime()
            metric.metrics.append(one)
        return wire.MetricResponse(metric=metric)

    def GetTpuRuntimeStatus(self, request, context):
        assert not request.include_hlo_info
        answer = wire.GetTpuRuntimeStatusResponse(host_name="t1v-n-1-w-0")
        for core, run in ((0, 8124), (1, 8123)):
            state = cores.CurrentCoreStateSummary(
                core_id=cores.TpuCoreIdentifier(global_core_id=core, chip_id=core),
                program_fingerprint=b"\x01\x02",
                launch_id=7,
                xdb_server_running=True,
            )
            main, other = cores.TPU_SEQUENCER_TYPE_TENSOR_CORE_SEQUENCER, cores.TPU_SEQUENCER_TYPE_SPARSE_CORE_SEQUENCER
            state.sequencer_info.add(sequencer_type=other, pc=1, run_id=9999)
            state.sequencer_info.add(sequencer_type=main, pc=2, tag=3, program_id=4, run_id=run, hlo_location="fusion.7")
            state.queued_program_info.add(run_id=run + 1, launch_id=8)
            answer.core_states[core].CopyFrom(state)
        answer.core_states[1].error_message = "halted: scalar core"
        return answer


def serve():
    server = grpc.server(futures.ThreadPoolExecutor(2))
    service.add_RuntimeMetricServiceServicer_to_server(Libtpu(), server)
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    server.start()
    sys.stdin.read()
    server.stop(None)


def ask(address):
    usage = metrics.get_chip_usage(device.TpuChip.V4, addr=address)
    states = metrics.get_tpuz_info(addr=address)
    print(json.dumps({
        "usage": [list(chip) for chip in usage],
        "runs": [[core.global_core_id, core.sequencer_states[0].sequencer_type, core.sequencer_states[0].run_id] for core in states],
    }))


serve() if sys.argv[1] == "serve" else ask(sys.argv[2])
