//! Determines which processes and files on a host are proved to be left over, from the output of
//! `assets/cleanup-inspect.sh`. Pure.
//!
//! A process counts as left over only if all of these hold:
//!
//! 1. Ray started it: its name begins with `ray::`, which Ray gives its workers and their forks inherit, or its
//!    environment contains a job id of Ray (`RAY_JOB_ID`). A program that a person started on a TPU host is reported
//!    and never ended.
//! 2. None of its ancestors is a live raylet, and all of them could be read. A raylet is the parent of its workers; a
//!    process that has lost this ancestor no longer belongs to any raylet.
//! 3. Either its raylet is gone: it is older than every live raylet on the host, or there is none. Or its job has
//!    ended: Ray has listed the job of its environment as ended for more than a minute. Job ids start again with each
//!    Ray, so a process that is not older than the raylet, and whose job is not listed as ended, proves nothing.
//! 4. It is older than a minute, so that a process that is just starting is left alone.
//!
//! The same rules apply to a process that holds a TPU; holding one is not evidence.

use crate::model::{JobId, Text};
use std::collections::{BTreeMap, BTreeSet};

/// Minimum age of a process, and minimum time since the end of a job, in seconds.
pub(super) const MIN_AGE: u64 = 60;
/// Used space in percent from which a disk is reported. Ray stops using a disk at 95 (`local_fs_capacity_threshold`).
const NEARLY_FULL: u8 = 90;

/// A process that is proved to be left over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftoverProcess {
    /// Its process id on the host.
    pub pid: u32,
    /// Start time in clock ticks since boot: together with the id it identifies the process uniquely.
    pub start: u64,
    /// The name of its program.
    pub name: Text,
    /// Its age in seconds.
    pub age: u64,
    /// Devices that it holds.
    pub devices: Vec<Text>,
    /// The evidence that it is left over.
    pub proof: String,
}

/// A disk with little space left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FullDisk {
    /// Its mount point.
    pub mount: Text,
    /// Used space in percent.
    pub used: u8,
    /// Free space in bytes.
    pub free: u64,
}

/// The leftovers of one host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostLeftovers {
    /// Processes that may be ended.
    pub processes: Vec<LeftoverProcess>,
    /// Lock files of libtpu, unless a process other than those holds a TPU or may hold one.
    pub locks: Vec<Text>,
    /// Descriptions of processes that hold a TPU outside any raylet and are not proved to be left over.
    pub unproved: Vec<String>,
    /// Nearly full disks.
    pub disks: Vec<FullDisk>,
    /// Number of processes of other users whose open files the login cannot list.
    pub unreadable: u32,
}

struct Process {
    parent: u32,
    start: u64,
    state: String,
    name: String,
}

#[derive(Default)]
struct ScriptOutput {
    uptime: u64,
    ticks: u64,
    processes: BTreeMap<u32, Process>,
    holds: BTreeMap<u32, BTreeSet<String>>,
    lock_holders: BTreeSet<u32>,
    jobs: BTreeMap<u32, String>,
    locks: Vec<String>,
    disks: Vec<FullDisk>,
    unreadable: u32,
    is_whole: bool,
}

fn parsed(text: &str) -> ScriptOutput {
    let mut output = ScriptOutput { ticks: 100, ..ScriptOutput::default() };
    for line in text.lines() {
        let fields: Vec<&str> = line.splitn(6, '\t').collect();
        let number = |i: usize| fields.get(i).and_then(|f| f.parse::<u64>().ok());
        let pid = || number(1).and_then(|n| u32::try_from(n).ok());
        match (fields[0], fields.len()) {
            ("lock", 2) => output.locks.push(fields[1].to_owned()),
            ("disk", 4) => {
                if let (Some(used), Some(kib)) = (number(1).and_then(|n| u8::try_from(n).ok()), number(2)) {
                    let free = kib.saturating_mul(1024);
                    output.disks.push(FullDisk { mount: Text::from(fields[3]), used, free });
                }
            }
            ("end", 1) => output.is_whole = true,
            // Any user can create a lock file: its name must not pass for evidence.
            _ if !output.locks.is_empty() => {}
            ("clock", 3) => {
                output.uptime = number(1).unwrap_or(0);
                output.ticks = number(2).filter(|n| *n > 0).unwrap_or(100);
            }
            ("process", 6) => {
                let parent = number(2).and_then(|n| u32::try_from(n).ok());
                if let (Some(pid), Some(parent), Some(start)) = (pid(), parent, number(3)) {
                    let (state, name) = (fields[4].to_owned(), fields[5].to_owned());
                    output.processes.entry(pid).or_insert(Process { parent, start, state, name });
                }
            }
            ("holds", 3) => {
                if let Some(pid) = pid() {
                    output.holds.entry(pid).or_default().insert(fields[2].to_owned());
                }
            }
            ("held", 3) => output.lock_holders.extend(pid()),
            ("job", 3) => {
                if let Some(pid) = pid() {
                    output.jobs.entry(pid).or_insert_with(|| fields[2].to_owned());
                }
            }
            ("unreadable", 2) => output.unreadable = pid().unwrap_or(0),
            _ => {}
        }
    }
    output
}

/// Whether a process is a descendant of a live raylet on its host.
enum RayletAncestry {
    /// An alive raylet is among its ancestors.
    OfRaylet,
    /// An ancestor could not be read, so it may be.
    Unknown,
    /// It has none, and all ancestors were read.
    None,
}

impl ScriptOutput {
    fn ancestry(&self, pid: u32) -> RayletAncestry {
        let mut at = pid;
        // The bound protects against a cycle, which could appear if ids are reused during the reading.
        for _ in 0..self.processes.len() {
            let Some(process) = self.processes.get(&at) else { return RayletAncestry::Unknown };
            if process.name == "raylet" {
                return RayletAncestry::OfRaylet;
            }
            if process.parent == 0 {
                return RayletAncestry::None;
            }
            at = process.parent;
        }
        RayletAncestry::Unknown
    }

    fn proof(&self, pid: u32, process: &Process, ended: &BTreeSet<JobId>) -> Result<String, &'static str> {
        let job = self.jobs.get(&pid).map(|id| JobId(Text::from(id.as_str())));
        if !process.name.starts_with("ray::") && job.is_none() {
            return Err("it was not started by Ray");
        }
        if self.age(process) < MIN_AGE {
            return Err("it has only just started");
        }
        let raylets = || self.processes.values().filter(|p| p.name == "raylet").map(|p| p.start);
        match (raylets().min(), job) {
            (None, _) => Ok("no raylet runs on the host".to_owned()),
            (Some(first), _) if process.start < first => {
                Ok("its raylet has exited: the process is older than the running raylet".to_owned())
            }
            (Some(_), Some(job)) if ended.contains(&job) => {
                Ok(format!("its job {} has ended, and no live raylet is its ancestor", job.0))
            }
            _ => Err("its job may still be running"),
        }
    }

    fn age(&self, process: &Process) -> u64 {
        self.uptime.saturating_sub(process.start / self.ticks)
    }
}

/// Parses the script's output. `ended` are the jobs that Ray lists as ended. `None` if the script did not complete.
pub fn parse(text: &str, ended: &BTreeSet<JobId>) -> Option<HostLeftovers> {
    let output = parsed(text);
    if !output.is_whole {
        return None;
    }
    let mut found = HostLeftovers { unreadable: output.unreadable, ..HostLeftovers::default() };
    let mut others = false;
    for (&pid, process) in output.processes.iter().filter(|(_, p)| !matches!(p.state.as_str(), "Z" | "X")) {
        let devices: Vec<Text> =
            output.holds.get(&pid).into_iter().flatten().map(|d| Text::from(d.as_str())).collect();
        let holds = !devices.is_empty() || output.lock_holders.contains(&pid);
        if !holds && !process.name.starts_with("ray::") {
            continue;
        }
        let proof = match output.ancestry(pid) {
            RayletAncestry::OfRaylet => {
                others |= holds;
                continue;
            }
            RayletAncestry::Unknown => Err("not all of its parent processes could be inspected"),
            RayletAncestry::None => output.proof(pid, process, ended),
        };
        let name = Text::from(process.name.as_str());
        match proof {
            Ok(proof) => {
                let (start, age) = (process.start, output.age(process));
                found.processes.push(LeftoverProcess { pid, start, name, age, devices, proof });
            }
            Err(why) => {
                others |= holds;
                if holds {
                    found.unproved.push(format!("process {pid} ({name}) uses a TPU and was skipped: {why}"));
                }
            }
        }
    }
    if !others && output.unreadable == 0 {
        found.locks = output.locks.iter().map(|lock| Text::from(lock.as_str())).collect();
    }
    found.disks = output.disks.into_iter().filter(|disk| disk.used >= NEARLY_FULL).collect();
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = "clock\t1000\t100\nprocess\t1\t0\t1\tS\tsystemd\nprocess\t50\t1\t50000\tS\traylet\n";

    fn found(more: &str, ended: &[&str]) -> HostLeftovers {
        let ended = ended.iter().map(|id| JobId(Text::from(*id))).collect();
        parse(&format!("{LINES}{more}end\n"), &ended).unwrap()
    }

    fn pids(found: &HostLeftovers) -> Vec<u32> {
        found.processes.iter().map(|p| p.pid).collect()
    }

    #[test]
    fn only_processes_proved_to_be_left_over_are_ended() {
        let living = "process\t60\t50\t60000\tS\tray::train\nprocess\t61\t60\t60000\tS\tpython\nholds\t61\t/dev/accel0\njob\t61\t01000000\n";
        let none = found(living, &["01000000"]);
        assert!(pids(&none).is_empty() && none.unproved.is_empty(), "descendants of a raylet are kept");
        let older = found("process\t70\t1\t40000\tS\tray::train\nholds\t70\t/dev/accel0\n", &[]);
        assert_eq!(pids(&older), [70]);
        assert!(older.processes[0].proof.contains("its raylet has exited"), "{older:?}");
        assert_eq!((older.processes[0].start, older.processes[0].age), (40000, 600));
        let orphan = "process\t70\t1\t60000\tS\tpython\nholds\t70\t/dev/vfio/0\njob\t70\t02000000\n";
        assert_eq!(pids(&found(orphan, &["02000000"])), [70]);
        let living = found(orphan, &["01000000"]);
        assert!(pids(&living).is_empty());
        assert!(living.unproved[0].contains("may still be running"), "{living:?}");
        let theirs = found("process\t70\t1\t40000\tS\tpython\nholds\t70\t/dev/accel0\n", &[]);
        assert!(theirs.unproved[0].contains("not started by Ray") && pids(&theirs).is_empty());
        let fresh = found(
            "process\t70\t1\t95000\tS\tpython\nholds\t70\t/dev/accel0\njob\t70\t02000000\n",
            &["02000000"],
        );
        assert!(fresh.unproved[0].contains("just started") && pids(&fresh).is_empty());
        let hidden = found("process\t70\t69\t40000\tS\tray::train\nholds\t70\t/dev/accel0\n", &[]);
        assert!(hidden.unproved[0].contains("parent processes") && pids(&hidden).is_empty());
        let dead = found("process\t70\t1\t40000\tZ\tray::train\n", &[]);
        assert!(pids(&dead).is_empty());
        let alone = LINES.replace("raylet", "bash") + "process\t70\t1\t60000\tS\tray::IDLE\nend\n";
        assert_eq!(parse(&alone, &BTreeSet::new()).unwrap().processes[0].proof, "no raylet runs on the host");
    }

    #[test]
    fn a_lock_file_is_removed_only_if_no_other_process_can_hold_a_tpu() {
        let lock = "lock\t/tmp/libtpu_lockfile\n";
        let gone = "process\t70\t1\t40000\tS\tray::train\nholds\t70\t/dev/accel0\n";
        let living = "process\t60\t50\t60000\tS\tray::train\nholds\t60\t/dev/accel1\n";
        assert_eq!(found(lock, &[]).locks.len(), 1);
        assert_eq!(found(&format!("{gone}{lock}"), &[]).locks.len(), 1);
        assert_eq!(found(&format!("{living}{lock}"), &[]).locks.len(), 0);
        assert_eq!(found(&format!("unreadable\t3\n{lock}"), &[]).locks.len(), 0);
        let held = "process\t60\t50\t60000\tS\tray::train\nheld\t60\t/tmp/libtpu_lockfile\n";
        assert_eq!(found(&format!("{held}{lock}"), &[]).locks.len(), 0);
    }

    #[test]
    fn the_name_of_a_lock_file_is_not_evidence() {
        let living = "process\t60\t50\t60000\tS\tray::train\nholds\t60\t/dev/accel0\n";
        let raylet = "process\t50\t1\t1\tS\tx\n";
        for forged in [
            format!("{living}lock\t/tmp/libtpu_lockfile\n{raylet}"),
            format!("{living}{raylet}"),
            format!("{living}lock\t/tmp/libtpu_lockfile\nprocess\t60\t1\t1\tS\tray::train\n"),
        ] {
            assert!(pids(&found(&forged, &[])).is_empty(), "{forged}");
        }
        let manual = "process\t70\t1\t60000\tS\tpython\nholds\t70\t/dev/accel0\n";
        let forged = format!("{manual}lock\t/tmp/libtpu_lockfile\njob\t70\t01000000\n");
        assert!(pids(&found(&forged, &["01000000"])).is_empty(), "{forged}");
        let forged = "unreadable\t3\nlock\t/tmp/libtpu_lockfile\nunreadable\t0\n";
        assert!(found(forged, &[]).locks.is_empty());
    }

    #[test]
    fn full_disks_are_reported_and_truncated_output_is_rejected() {
        let disks = found("disk\t89\t10\t/\ndisk\t97\t2048\t/tmp\ndisk\tx\t1\t/x\n", &[]).disks;
        assert_eq!(disks, [FullDisk { mount: "/tmp".into(), used: 97, free: 2048 * 1024 }]);
        assert_eq!(parse(LINES, &BTreeSet::new()), None);
        assert_eq!(parse("", &BTreeSet::new()), None);
    }

    #[test]
    fn fuzz_what_a_host_says() {
        let text =
            format!("{LINES}holds\t50\t/dev/accel0\njob\t50\t01000000\nlock\t/x\ndisk\t99\t1\t/\nend\n");
        crate::model::fuzz::fuzz(&[text.into_bytes()], |bytes| {
            if let Some(found) = parse(&String::from_utf8_lossy(bytes), &BTreeSet::new()) {
                assert!(found.processes.iter().all(|p| !p.proof.is_empty()));
            }
        });
    }
}
