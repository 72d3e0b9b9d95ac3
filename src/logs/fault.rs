//! Classifies errors: whether the worker itself is at fault, or another one that it lost.

use super::level::Level;
use super::noise::noise;
use super::unit::Unit;
use regex::RegexSet;
use std::sync::LazyLock;

/// A kind of error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// A node died, as the cluster reports it.
    NodeDied,
    /// Its host was preempted, or is about to be.
    Preempted,
    /// The accelerator's memory was exhausted.
    DeviceMemory,
    /// The host's memory was exhausted, and the kernel or Ray killed a process.
    HostMemory,
    /// A full disk.
    Disk,
    /// The hardware or its driver reports a fault.
    Hardware,
    /// A signal ended the process.
    Signal,
    /// An exception of Python.
    Exception,
    /// A line at the level of an error.
    Error,
    /// It waited too long for the others.
    Timeout,
    /// It lost another worker, or the coordinator.
    PeerLost,
    /// Ray reports that another worker, actor or node is dead.
    ActorDied,
}

impl Fault {
    /// Whether it is a consequence of another worker's failure.
    pub const fn is_consequence(self) -> bool {
        matches!(self, Self::Timeout | Self::PeerLost | Self::ActorDied)
    }

    /// The kind in words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::NodeDied => "node died",
            Self::Preempted => "preempted",
            Self::DeviceMemory => "out of device memory",
            Self::HostMemory => "out of host memory",
            Self::Disk => "disk full",
            Self::Hardware => "hardware fault",
            Self::Signal => "terminated by a signal",
            Self::Exception => "exception",
            Self::Error => "error",
            Self::Timeout => "timeout",
            Self::PeerLost => "lost a peer",
            Self::ActorDied => "lost an actor",
        }
    }
}

/// Regular expressions; the first one that matches determines the kind. Consequences of another worker's failure come
/// before the general kinds: `XlaRuntimeError: UNAVAILABLE: Socket closed` is an exception, but not the root cause.
const TABLE: [(Fault, &str); 12] = [
    // XLA's compiler and allocator; CUDA's; `Ran out of memory in memory space hbm`.
    (
        Fault::DeviceMemory,
        r"RESOURCE_EXHAUSTED.*(?:[Mm]emory|[Hh]bm|HBM|Oom|[Aa]llocat)|CompileTimeHbmOom|Ran out of memory in memory space|CUDA out of memory|OutOfMemoryError: CUDA|CUDA_ERROR_OUT_OF_MEMORY|RESOURCE_EXHAUSTED: Attempting to",
    ),
    // The kernel's OOM killer, Ray's memory monitor (src/ray/raylet/worker_killing_policy.cc), Python.
    (
        Fault::HostMemory,
        r"Out of memory: Killed process|oom-kill|oom_reaper|OutOfMemoryError: Task was killed|killed on this node due to.*low on memory|Workers? \(tasks / actors\) killed due to memory pressure|\bMemoryError\b|std::bad_alloc|Cannot allocate memory",
    ),
    // Compute Engine's metadata (`TERMINATE_ON_HOST_MAINTENANCE`), JAX's and Ray's notices.
    (
        Fault::Preempted,
        r"(?i:\b(?:vm|node|instance|host|machine|tpu|slice)\b[^.]{0,60}\bpreempted|\bpreemption (?:notice|event|signal|sync point|detected|warning))|TERMINATE_ON_HOST_MAINTENANCE|RECEIVED_PREEMPTION|will be (?:terminated|preempted) in \d+ ?s|The node expected termination|drained due to|(?:received|got|caught) SIGTERM|SIGTERM (?:received|signal)",
    ),
    (Fault::Disk, r"No space left on device|ENOSPC|OutOfDiskError"),
    // NVRM's Xid, ECC, libtpu's chips and links.
    (
        Fault::Hardware,
        r"NVRM: Xid|\bXid \(PCI|uncorrectable (?:ECC )?error|(?i:unhealthy (?:tpu|chip|accelerator))|INTERNAL: Core halted|TPU driver (?:error|fault)|CUDA error: (?:an illegal memory access|unspecified launch failure|uncorrectable|device-side assert)|ICI link|Failed to (?:connect to|open) .*/dev/(?:accel|vfio)",
    ),
    // Ray's own words for workers and nodes that are gone (`ray/exceptions.py`, `src/ray/core_worker`).
    (
        Fault::ActorDied,
        r"The actor (?:died|is dead)|ActorDiedError|RayActorError|ActorUnavailableError|The actor is (?:temporarily )?unavailable|WorkerCrashedError|The worker died unexpectedly|NodeDiedError|OwnerDiedError|ObjectLostError|owner of the object.* died|actor died because its (?:node|owner)",
    ),
    // NCCL's watchdog (torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp), XLA's rendezvous, JAX's barriers.
    (
        Fault::Timeout,
        r"[Ww]atchdog caught collective operation timeout|collective operation timeout|Some NCCL operations have failed or timed out|Barrier timed out|Barrier result: DEADLINE_EXCEEDED|(?:tasks?|workers?) .*(?:did not|failed to) (?:reach|join).*[Bb]arrier|DEADLINE_EXCEEDED|[Rr]endezvous.*(?:timed out|timeout)|Gloo.*[Tt]imed out|GetKeyValue\(\) timed out|heartbeat timeout",
    ),
    // JAX's coordination service (xla/tsl/distributed_runtime/coordination), gRPC, NCCL, Gloo, sockets.
    (
        Fault::PeerLost,
        r"JAX distributed service detected fatal errors|[Pp]olled an error from coordination service|stopped sending heartbeats|heartbeat(?:s)? (?:from|of|missed|failed)|coordination service.*(?:heartbeat|UNAVAILABLE|unhealthy|error)|CoordinationService|[Pp]eer (?:died|is dead|has left|closed)|[Cc]onnection reset|[Ss]ocket closed|[Cc]onnection refused|[Cc]onnection closed by|[Bb]roken pipe|remote process exited|ncclRemoteError|NCCL.*(?:peer|remote|network error|[Uu]nhandled system error)|failed to connect to all addresses|UNAVAILABLE:|ConnectionResetError|ConnectionRefusedError|BrokenPipeError|another task died|The tasks have crashed|TCPStore.*(?:closed|recvValue)|ABORTED:.*(?:peer|task)|Lost connection",
    ),
    // Python's faulthandler, glog's and absl's failure handlers, shells, Ray's worker exits.
    (
        Fault::Signal,
        r"\*{3} SIG[A-Z]+ (?:received|\(@)|Fatal Python error|[Ss]egmentation fault|SIGSEGV|SIGBUS|SIGABRT|SIGILL|SIGFPE|SIGKILL|Aborted \(core dumped\)|(?:exit(?:ed)?(?: code| status)?|code|status)[ =:]*(?:-9|-11|-6|137|139|134)\b|terminated by signal|core dumped|terminate called",
    ),
    (Fault::Exception, r"Traceback \(most recent call last\):"),
    (Fault::Exception, r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt)(?::|\(|$)"),
    (Fault::Error, r"RESOURCE_EXHAUSTED"),
];

/// Whether a line reports a fault, whatever its level; fast for other lines.
pub fn fault(text: &str) -> Option<Fault> {
    static PATTERNS: LazyLock<RegexSet> =
        LazyLock::new(|| RegexSet::new(TABLE.iter().map(|(_, pattern)| *pattern)).unwrap_or_default());
    let first = PATTERNS.matches(text).iter().next()?;
    TABLE.get(first).map(|(fault, _)| *fault)
}

/// The kind of error of a unit; `None` if it is not an error. A traceback is classified by its exceptions, because
/// frames may contain anything.
pub(super) fn of_unit(unit: &Unit<'_>) -> Option<Fault> {
    if unit.is_traceback() {
        let said = unit.trace.iter().filter(|line| !line.starts_with([' ', '\t']));
        let all =
            said.filter_map(|line| fault(line)).filter(|f| !matches!(f, Fault::Exception | Fault::Error));
        // A specific exception explains the others of the chain.
        return Some(all.min().unwrap_or(Fault::Exception));
    }
    let found = match (fault(&unit.text), unit.level) {
        // A line that is not an error for its logger is one only if it concerns this process or this host.
        (Some(found), Some(Level::Debug | Level::Info | Level::Warning)) => {
            let is_own =
                matches!(found, Fault::Preempted | Fault::HostMemory | Fault::Signal | Fault::Hardware);
            is_own.then_some(found)
        }
        (None, Some(Level::Error)) => Some(Fault::Error),
        (found, _) => found,
    };
    found.filter(|_| noise(&unit.text).is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_recognized_by_their_messages() {
        for (line, expected) in [
            // Local faults.
            (
                "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: E1000: CompileTimeHbmOom:",
                Some(Fault::DeviceMemory),
            ),
            (
                "RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. Used 49.34G",
                Some(Fault::DeviceMemory),
            ),
            (
                "RESOURCE_EXHAUSTED: TPU TensorCore Hbm usage: 34.82G, SparseCore Hbm usage 174.10G, exceeding",
                Some(Fault::DeviceMemory),
            ),
            (
                "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB",
                Some(Fault::DeviceMemory),
            ),
            ("grpc: RESOURCE_EXHAUSTED: quota of requests", Some(Fault::Error)),
            (
                "Nov 21 13:58:14 h kernel: Out of memory: Killed process 1073 (python)",
                Some(Fault::HostMemory),
            ),
            (
                "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.",
                Some(Fault::HostMemory),
            ),
            ("The VM of this worker was preempted", Some(Fault::Preempted)),
            ("Sequence group 0 is preempted by PreemptionMode.RECOMPUTE", None),
            ("OSError: [Errno 28] No space left on device", Some(Fault::Disk)),
            ("NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus", Some(Fault::Hardware)),
            (
                "*** SIGABRT received by PID 15450 (TID 15450) on cpu 95 from PID 15450; stack trace: ***",
                Some(Fault::Signal),
            ),
            ("Fatal Python error: Segmentation fault", Some(Fault::Signal)),
            ("ValueError: bad shape", Some(Fault::Exception)),
            ("KeyboardInterrupt", Some(Fault::Exception)),
            // Consequences of another worker's failure.
            (
                "E0926 17:26:32.075402  157988 coordination_service_agent.cc:332] Polled an error from coordination \
                 service (this can be an error from this or another task).",
                Some(Fault::PeerLost),
            ),
            (
                "F0926 17:26:32.075587  157988 client.h:77] Terminating process because the JAX distributed service \
                 detected fatal errors.",
                Some(Fault::PeerLost),
            ),
            ("jaxlib.xla_extension.XlaRuntimeError: UNAVAILABLE: Socket closed", Some(Fault::PeerLost)),
            ("ConnectionResetError: [Errno 104] Connection reset by peer", Some(Fault::PeerLost)),
            (
                "NCCL error: remote process exited or there was a network error, NCCL version 2.14.3",
                Some(Fault::PeerLost),
            ),
            (
                "[rank3]:[E1206 18:44:13.2 ProcessGroupNCCL.cpp:607] [Rank 3] Watchdog caught collective operation timeout",
                Some(Fault::Timeout),
            ),
            (
                "Barrier result: DEADLINE_EXCEEDED; # of tasks that reached the barrier: 1/8",
                Some(Fault::Timeout),
            ),
            (
                "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.",
                Some(Fault::ActorDied),
            ),
            // Ordinary lines.
            ("step 3 loss 2.1", None),
            ("Connected to peer 10.0.0.1", None),
            ("", None),
        ] {
            assert_eq!(fault(line), expected, "{line}");
        }
        assert_eq!(RegexSet::new(TABLE.iter().map(|(_, p)| *p)).unwrap().len(), TABLE.len());
    }
}
