/* libnvidia-ml.so.1 without a driver: the calls of NVML that Ray makes through its pynvml, answered from the table
 * below. A process on a device is a line `DEVICE PID` of the file that NVML_PROCESSES names; DEVICE is a place in the
 * table. Structures and codes are those of nvml.h of CUDA 12. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	SUCCESS = 0,
	INVALID_ARGUMENT = 2,
	NOT_SUPPORTED = 3,
	NOT_FOUND = 6,
	INSUFFICIENT_SIZE = 7,
};

#define MIB (1ULL << 20)
#define PROCESSES 16
#define GPUS 4
#define DEVICES (int)(sizeof devices / sizeof *devices)

typedef const struct device {
	const char *name, *uuid;
	unsigned long long total, used; /* MiB */
	int utilization; /* percent; -1: not supported */
	unsigned milliwatts, celsius;
	int has_mig; /* it is divided; its MIG devices are below */
	int mig_of; /* the GPU that it is a part of; 0 is no such GPU */
} *device;

static const struct device devices[] = {
	/* busy, idle, without utilization, divided */
	{"NVIDIA H100 80GB HBM3", "GPU-6f3d1c52-0a4e-4b7e-9c11-000000000000", 81559, 62215, 97, 641250, 63, 0, 0},
	{"NVIDIA H100 80GB HBM3", "GPU-6f3d1c52-0a4e-4b7e-9c11-000000000001", 81559, 537, 0, 71830, 34, 0, 0},
	{"NVIDIA H100 80GB HBM3", "GPU-6f3d1c52-0a4e-4b7e-9c11-000000000002", 81559, 20993, -1, 0, 0, 0, 0},
	{"NVIDIA H100 80GB HBM3", "GPU-6f3d1c52-0a4e-4b7e-9c11-000000000003", 81559, 30123, -1, 212400, 45, 1, 0},
	{"NVIDIA H100 80GB HBM3 MIG 3g.40gb", "MIG-2b0f9a77-5d1e-5c1b-8a02-000000000000", 40448, 30067, -1, 0, 0, 0, 3},
	{"NVIDIA H100 80GB HBM3 MIG 3g.40gb", "MIG-2b0f9a77-5d1e-5c1b-8a02-000000000001", 40448, 44, -1, 0, 0, 0, 3},
};

struct memory { unsigned long long total, free, used; };
struct utilization { unsigned gpu, memory; };
struct process { unsigned pid; unsigned long long used; unsigned instance, compute_instance; };
struct sample { unsigned long long time; unsigned pid, sm, memory, encoder, decoder, jpeg, optical; };
struct samples { unsigned version, count; unsigned long long since; struct sample *samples; };

int nvmlInitWithFlags(unsigned flags) { (void)flags; return SUCCESS; }
int nvmlShutdown(void) { return SUCCESS; }
const char *nvmlErrorString(int code)
{
	switch (code) {
	case SUCCESS: return "Success";
	case NOT_SUPPORTED: return "Not Supported";
	case NOT_FOUND: return "Not Found";
	case INSUFFICIENT_SIZE: return "Insufficient Size";
	default: return "Invalid Argument";
	}
}

int nvmlDeviceGetCount_v2(unsigned *count) { *count = GPUS; return SUCCESS; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, device *found)
{
	if (index >= GPUS) return INVALID_ARGUMENT;
	*found = &devices[index];
	return SUCCESS;
}

int nvmlDeviceGetMigMode(device d, unsigned *now, unsigned *later) { *now = *later = d->has_mig; return SUCCESS; }
/* How many there may be, as NVML has it, not how many there are. */
int nvmlDeviceGetMaxMigDeviceCount(device d, unsigned *count) { *count = d->has_mig ? 7 : 0; return SUCCESS; }
int nvmlDeviceGetMigDeviceHandleByIndex(device d, unsigned index, device *found)
{
	for (int i = GPUS; i < DEVICES; i++)
		if (devices[i].mig_of == d - devices && index-- == 0) {
			*found = &devices[i];
			return SUCCESS;
		}
	return NOT_FOUND;
}

static int text(char *into, unsigned size, const char *said)
{
	return snprintf(into, size, "%s", said) < (int)size ? SUCCESS : INSUFFICIENT_SIZE;
}
int nvmlDeviceGetName(device d, char *into, unsigned size) { return text(into, size, d->name); }
int nvmlDeviceGetUUID(device d, char *into, unsigned size) { return text(into, size, d->uuid); }

int nvmlDeviceGetMemoryInfo(device d, struct memory *memory)
{
	*memory = (struct memory){d->total * MIB, (d->total - d->used) * MIB, d->used * MIB};
	return SUCCESS;
}
int nvmlDeviceGetUtilizationRates(device d, struct utilization *rates)
{
	if (d->utilization < 0) return NOT_SUPPORTED;
	*rates = (struct utilization){d->utilization, d->utilization / 2};
	return SUCCESS;
}
int nvmlDeviceGetPowerUsage(device d, unsigned *milliwatts)
{
	*milliwatts = d->milliwatts;
	return d->milliwatts ? SUCCESS : NOT_SUPPORTED;
}
int nvmlDeviceGetTemperature(device d, int sensor, unsigned *celsius)
{
	(void)sensor;
	*celsius = d->celsius;
	return d->celsius ? SUCCESS : NOT_SUPPORTED;
}

/* The processes on a device. */
static unsigned processes(device d, unsigned *pids)
{
	const char *path = getenv("NVML_PROCESSES");
	FILE *file = path ? fopen(path, "r") : NULL;
	unsigned count = 0, place, pid;
	if (!file) return 0;
	while (count < PROCESSES && fscanf(file, "%u %u", &place, &pid) == 2)
		if (place == (unsigned)(d - devices)) pids[count++] = pid;
	fclose(file);
	return count;
}
int nvmlDeviceGetComputeRunningProcesses_v3(device d, unsigned *room, struct process *into)
{
	unsigned pids[PROCESSES], count = processes(d, pids), fits = *room;
	*room = count;
	if (fits < count) return INSUFFICIENT_SIZE;
	/* All but what the driver keeps. */
	for (unsigned i = 0; i < count; i++)
		into[i] = (struct process){pids[i], (d->used - 537) * MIB / count, -1, -1};
	return SUCCESS;
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(device d, unsigned *room, struct process *into)
{
	(void)d, (void)into;
	*room = 0;
	return SUCCESS;
}
int nvmlDeviceGetProcessesUtilizationInfo(device d, struct samples *samples)
{
	unsigned pids[PROCESSES], count = processes(d, pids), fits = samples->samples ? samples->count : 0;
	if (d->utilization < 0) return NOT_SUPPORTED;
	if (!count) return NOT_FOUND;
	samples->count = count;
	if (fits < count) return INSUFFICIENT_SIZE;
	for (unsigned i = 0; i < count; i++) {
		struct sample one = {.time = samples->since + 1, .pid = pids[i], .sm = d->utilization / count, .memory = 48};
		samples->samples[i] = one;
	}
	return SUCCESS;
}
