//! A host's processes and chips (`GET /nodes/{id}`).

use super::super::json::{Loose, Num, Rows, Str, read_with};
use super::envelope;
use crate::model::sort;
use crate::model::{ChipUse, HostProcess, JobId, Text, Timestamp};
use crate::ray::RayError;
use serde::Deserialize;
use serde_json::Value;
use std::cmp::Reverse;

/// Ray reports the memory of GPUs in megabytes, that of TPUs in bytes.
const MEGABYTE: u64 = 1 << 20;

#[derive(Default, Deserialize)]
#[serde(default)]
struct Detail<'a> {
    #[serde(borrow)]
    detail: Loose<Host<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Host<'a> {
    #[serde(borrow)]
    workers: Rows<Process<'a>>,
    #[serde(borrow)]
    agent: Loose<Process<'a>>,
    #[serde(borrow)]
    gcs: Loose<Process<'a>>,
    #[serde(borrow)]
    gpus: Rows<Gpu<'a>>,
    tpus: Rows<Tpu>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Process<'a> {
    pid: Num,
    cmdline: Value,
    #[serde(borrow)]
    job_id: Str<'a>,
    cpu_percent: Num,
    memory_info: Loose<Memory>,
    create_time: Num,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Memory {
    rss: Num,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Gpu<'a> {
    index: Num,
    #[serde(borrow)]
    name: Str<'a>,
    #[serde(rename = "utilizationGpu")]
    utilization: Num,
    memory_used: Num,
    memory_total: Num,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Tpu {
    index: Num,
    duty_cycle: Num,
    memory_used: Num,
    memory_total: Num,
}

impl Process<'_> {
    fn process(&self) -> Option<HostProcess> {
        let pid = self.pid.whole().and_then(|pid| u32::try_from(pid).ok()).filter(|pid| *pid > 0)?;
        // Ray overwrites the command line with a title, and leaves the other words empty.
        let words = self.cmdline.as_array().into_iter().flatten().filter_map(Value::as_str);
        let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
        // Ray's own processes have a job of `ff..`.
        let is_job = self.job_id.0.len() == 8 && self.job_id.0.bytes().any(|b| b != b'f');
        Some(HostProcess {
            pid,
            title: Text::from(words.join(" ").as_str()),
            job: is_job.then(|| JobId(self.job_id.text())),
            cpu_percent: self.cpu_percent.0,
            memory: self.memory_info.0.rss.whole(),
            started: self.create_time.0.map(Timestamp::from_secs_f64),
        })
    }
}

/// A valid percentage: Ray writes -1 if the driver does not report one, e.g. for MIG devices.
fn percent(number: Num) -> Option<f64> {
    number.0.filter(|n| n.is_finite() && *n >= 0.0).map(|n| n.min(100.0))
}

fn number(number: Num, index: usize) -> u32 {
    number.whole().and_then(|n| u32::try_from(n).ok()).unwrap_or(index as u32)
}

impl Host<'_> {
    fn chips(&self) -> Vec<ChipUse> {
        let gpus = self.gpus.0.iter().enumerate().map(|(index, gpu)| {
            let memory = gpu.memory_used.whole().zip(gpu.memory_total.whole());
            ChipUse {
                number: number(gpu.index, index),
                name: gpu.name.text(),
                duty_percent: percent(gpu.utilization),
                memory: memory.map(|(u, t)| (u.saturating_mul(MEGABYTE), t.saturating_mul(MEGABYTE))),
            }
        });
        let tpus = self.tpus.0.iter().enumerate().map(|(index, tpu)| ChipUse {
            number: number(tpu.index, index),
            name: Text::default(),
            duty_percent: percent(tpu.duty_cycle),
            memory: tpu.memory_used.whole().zip(tpu.memory_total.whole()),
        });
        gpus.chain(tpus).collect()
    }
}

/// The processes and the chips of a host: processes of jobs first, then by memory.
pub fn host(route: &str, body: &[u8]) -> Result<(Vec<HostProcess>, Vec<ChipUse>), RayError> {
    read_with(route, body, |text| {
        let detail: Detail<'_> = envelope::data(text)?;
        let host = &detail.detail.0;
        let mut processes: Vec<HostProcess> = host.workers.0.iter().filter_map(Process::process).collect();
        let own = [&host.agent.0, &host.gcs.0].into_iter().filter_map(Process::process);
        for process in own {
            // Ray 2.60 lists its agent among the workers, too.
            if !processes.iter().any(|p| p.pid == process.pid) {
                processes.push(process);
            }
        }
        sort::by_key(&mut processes, |p| (p.job.is_none(), Reverse(p.memory), p.pid));
        Ok((processes, host.chips()))
    })
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{VERSIONS, body};
    use super::*;

    #[test]
    fn recorded_processes_of_a_host_have_their_jobs() {
        for version in VERSIONS {
            let (processes, chips) = host("node", &body(version, "busy_node_worker")).unwrap();
            let step = processes.iter().find(|p| p.title.raw() == "ray::train_step").unwrap();
            assert_eq!(step.job, Some(JobId("04000000".into())), "{version}");
            assert!(step.memory.is_some_and(|m| m > 1 << 20) && step.started.is_some(), "{version}");
            assert!(processes.iter().any(|p| p.job.is_none()), "{version}: Ray's agent");
            let mut pids: Vec<u32> = processes.iter().map(|p| p.pid).collect();
            pids.sort_unstable();
            pids.dedup();
            assert_eq!(pids.len(), processes.len(), "{version}: each once");
            assert!(chips.is_empty());
        }
    }

    // Recorded from Ray's own agent, with an NVML library that simulates the GPUs: `tests/gpu/record`.
    #[test]
    fn recorded_gpus_have_usage_and_memory_and_a_missing_value_is_not_zero() {
        let (gpu, part) = ("NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3 MIG 3g.40gb");
        let memory = |used: u64, total: u64| Some((used << 20, total << 20));
        for version in VERSIONS {
            let (processes, chips) = host("node", &body(version, "gpus_node")).unwrap();
            let all: Vec<_> =
                chips.iter().map(|c| (c.number, c.name.raw(), c.duty_percent, c.memory)).collect();
            let expected = [
                (0, gpu, Some(97.0), memory(62_215, 81_559)),
                (1, gpu, Some(0.0), memory(537, 81_559)),
                (2, gpu, None, memory(20_993, 81_559)),
                (3000, part, None, memory(30_067, 40_448)),
                (3001, part, None, memory(44, 40_448)),
            ];
            assert_eq!(all, expected, "{version}");
            let job = Some(JobId("01000000".into()));
            let holders = processes.iter().filter(|p| p.title.raw() == "ray::Trainer" && p.job == job);
            assert_eq!(holders.count(), 2, "{version}");
        }
    }

    #[test]
    fn gpus_and_tpus_are_read_in_their_units() {
        let text = r#"{"result": true, "data": {"detail": {
            "gpus": [{"index": 1, "name": "NVIDIA H100", "utilizationGpu": 250, "memoryUsed": 2, "memoryTotal": 80}, null],
            "tpus": [{"index": 0, "dutyCycle": 50.25, "memoryUsed": 1024, "memoryTotal": 4096},
                     {"dutyCycle": "NaN", "memoryUsed": -1, "memoryTotal": 4096}]}}}"#;
        let (_, chips) = host("node", text.as_bytes()).unwrap();
        let all: Vec<_> = chips.iter().map(|c| (c.number, c.duty_percent, c.memory)).collect();
        let gpu = (1, Some(100.0), Some((2 << 20, 80 << 20)));
        assert_eq!(all, [gpu, (0, Some(50.25), Some((1024, 4096))), (1, None, None)]);
    }

    #[test]
    fn an_unknown_host_has_nothing() {
        for version in VERSIONS {
            assert_eq!(host("node", &body(version, "busy_node_unknown")).unwrap(), (Vec::new(), Vec::new()));
        }
    }
}
