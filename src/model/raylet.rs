//! The threads of the raylets on the hosts of a job.

use super::Text;
use super::amount::counted;
use super::node::host_words;

/// Percent of a core above which a raylet's thread is named: it schedules for its whole host.
const BUSY: f64 = 50.0;

/// The threads of a host's raylet.
#[derive(Clone, Debug, PartialEq)]
pub struct RayletThreads {
    /// The name that its node is shown by; its address where it has none.
    pub host: Text,
    /// The node's address.
    pub address: Text,
    /// Its process id.
    pub pid: u32,
    /// Its threads, the main one first.
    pub threads: Vec<RayletThread>,
}

/// A thread of a raylet.
#[derive(Clone, Debug, PartialEq)]
pub struct RayletThread {
    /// Its name.
    pub name: Text,
    /// Its state as the kernel names it (`proc_pid_stat(5)`): `S` sleeping, `R` running, `D` blocked, `T` stopped.
    pub state: char,
    /// Percent of a core that it used between two samples; none after one.
    pub cpu: Option<f64>,
}

impl RayletThread {
    /// `raylet  S  0.4%`, safe for a terminal.
    pub fn words(&self) -> String {
        let cpu = self.cpu.map(|cpu| format!("  {cpu:.1}%")).unwrap_or_default();
        format!("{}  {}{cpu}", self.name, self.state)
    }

    /// What is wrong with it; none where nothing is.
    fn trouble(&self) -> Option<String> {
        let busy = self.cpu.filter(|cpu| *cpu >= BUSY);
        match (self.state, busy) {
            ('T' | 't', _) => Some(format!("{} is stopped", self.name)),
            ('D', _) => Some(format!("{} is blocked in the kernel", self.name)),
            (_, Some(cpu)) => Some(format!("{} uses {cpu:.0}% of a core", self.name)),
            _ => None,
        }
    }
}

impl RayletThreads {
    /// `t1v-n-7 (10.0.0.7) pid 31: raylet uses 98% of a core`, safe for a terminal; none where nothing is wrong.
    pub fn trouble(&self) -> Option<String> {
        let mut troubles: Vec<String> = self.threads.iter().filter_map(RayletThread::trouble).collect();
        if troubles.is_empty() {
            return None;
        }
        if self.threads.iter().all(|thread| matches!(thread.state, 'T' | 't')) {
            troubles = vec!["stopped by a signal or a debugger".to_owned()];
        }
        let on = host_words(&self.host, &self.address);
        Some(format!("{on} pid {}: {}", self.pid, troubles.join(", ")))
    }
}

/// The lines that raylets get below the stacks of a job: one for each with something wrong, which begins with `! `, and one
/// for the others.
pub fn raylet_lines(raylets: &[RayletThreads]) -> Vec<String> {
    let mut lines: Vec<String> =
        raylets.iter().filter_map(RayletThreads::trouble).map(|trouble| format!("! {trouble}")).collect();
    let well: Vec<_> = raylets.iter().filter(|raylet| raylet.trouble().is_none()).collect();
    if !well.is_empty() {
        let threads: usize = well.iter().map(|raylet| raylet.threads.len()).sum();
        let sampled = well.iter().all(|raylet| raylet.threads.iter().all(|thread| thread.cpu.is_some()));
        let what = if sampled {
            format!("stopped, blocked or above {BUSY:.0}% of a core")
        } else {
            "stopped or blocked".to_owned()
        };
        let hosts = counted(well.len(), "host");
        lines.push(format!("{hosts}: none of {} is {what}", counted(threads, "thread")));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raylet(host: &str, threads: &[(char, Option<f64>)]) -> RayletThreads {
        let thread = |(state, cpu): &(char, Option<f64>)| RayletThread {
            name: "raylet".into(),
            state: *state,
            cpu: *cpu,
        };
        RayletThreads {
            host: host.into(),
            address: "10.0.0.7".into(),
            pid: 31,
            threads: threads.iter().map(thread).collect(),
        }
    }

    #[test]
    fn a_raylet_with_something_wrong_is_named_and_the_others_are_counted() {
        let well = raylet("tb-w1", &[('S', Some(1.0)), ('R', Some(3.0))]);
        let all = [
            raylet("tb-w7", &[('S', Some(1.0)), ('R', Some(97.6))]),
            well.clone(),
            raylet("10.0.0.7", &[('T', None), ('T', None)]),
            raylet("tb-w8", &[('D', Some(0.0))]),
            well.clone(),
        ];
        assert_eq!(
            raylet_lines(&all),
            [
                "! tb-w7 (10.0.0.7) pid 31: raylet uses 98% of a core",
                "! 10.0.0.7 pid 31: stopped by a signal or a debugger",
                "! tb-w8 (10.0.0.7) pid 31: raylet is blocked in the kernel",
                "2 hosts: none of 4 threads is stopped, blocked or above 50% of a core",
            ]
        );
        let once = raylet("tb-w1", &[('S', None)]);
        assert_eq!(raylet_lines(&[once]), ["1 host: none of 1 thread is stopped or blocked"]);
        assert!(raylet_lines(&[]).is_empty());
    }
}
