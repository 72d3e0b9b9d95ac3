//! The dashboard's routes, one method each: jobs, machines, tasks and actors, workers and log files.

mod groups;
mod holdings;
mod inspect;
mod job_workers;
mod label_selectors;
mod work;

pub use holdings::Holdings;
pub use job_workers::{AT_ONCE, EMPTY_OR_FAILED, Listed};
pub use label_selectors::{NODE_ID_LABEL, SUPERVISOR};

use super::RayError;
use super::client::{Client, encoded};
use super::convert::interner::Interner;
use super::convert::{envelope, jobs, physical};
use super::gcs::Gcs;
use super::json::{self, Flag, Str};
use crate::model::{Job, NodeId, Physical, SubmissionId, Text};
use reqwest::Method;
use serde::Deserialize;
use serde_json::Value;

/// One job with its details.
#[derive(Clone, Debug, PartialEq)]
pub struct JobDetail {
    pub job: Job,
    /// Its runtime environment as JSON, the values of `env_vars` masked; empty when it has none.
    pub runtime_env: Text,
}

impl Client {
    /// Whether the cluster requires a token (`GET /api/authentication_mode`). The request itself needs none.
    pub async fn wants_token(&self) -> Result<bool, RayError> {
        #[derive(Deserialize)]
        struct Mode {
            authentication_mode: String,
        }
        let route = "/api/authentication_mode";
        let mode: Mode = json::read(route, &self.get(route).await?)?;
        Ok(mode.authentication_mode != "disabled")
    }

    /// Seconds that the head's time zone is east of UTC (`GET /timezone`). The times in its logs are in this zone.
    pub async fn utc_offset(&self) -> Result<i32, RayError> {
        #[derive(Deserialize)]
        struct Zone {
            offset: String,
        }
        let route = "/timezone";
        let zone: Zone = json::read(route, &self.get(route).await?)?;
        utc_offset(&zone.offset).ok_or_else(|| RayError::Malformed {
            route: route.to_owned(),
            why: format!("{:?} is not an offset", zone.offset),
        })
    }

    /// Whether the GCS requires a token; an error if it does not respond. Used when the dashboard does not respond.
    pub async fn gcs_wants_token(&self) -> Result<bool, RayError> {
        match Gcs::of(self)? {
            Some(gcs) => gcs.wants_token().await,
            None => Err(RayError::Setup("the address of the GCS is unknown".to_owned())),
        }
    }

    /// One submitted job (`GET /api/jobs/{id}`).
    pub async fn job(&self, id: &SubmissionId) -> Result<JobDetail, RayError> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Environment {
            runtime_env: Value,
        }
        let route = format!("/api/jobs/{}", encoded(id.0.raw()));
        let body = self.get(&route).await?;
        let mut environment: Environment = json::read(&route, &body)?;
        mask(&mut environment.runtime_env);
        let runtime_env = match environment.runtime_env {
            Value::Null => Text::default(),
            env => Text::from(env.to_string()),
        };
        Ok(JobDetail { job: jobs::one(&route, &body, Some(&id.0), &Interner::default())?, runtime_env })
    }

    /// The head's node id (`GET /api/v0/nodes`, the rows with `is_head_node`).
    pub async fn head_node(&self) -> Result<NodeId, RayError> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Row<'a> {
            #[serde(borrow)]
            node_id: Str<'a>,
            #[serde(borrow)]
            state: Str<'a>,
        }
        let route = "/api/v0/nodes?filter_keys=is_head_node&filter_predicates=%3D&filter_values=true";
        let body = self.get(route).await?;
        let found = json::read_with(route, &body, |text| {
            let rows = envelope::listed::<Row<'_>>(text)?.result.0;
            Ok(rows
                .iter()
                .find(|row| &*row.state.0 != "DEAD")
                .and_then(|row| NodeId::from_hex(&row.node_id.0)))
        })?;
        found.ok_or_else(|| RayError::Malformed {
            route: route.to_owned(),
            why: "no node is marked as the head".to_owned(),
        })
    }

    /// Asks Ray to stop a job (`POST /api/jobs/{id}/stop`). True means that the stop was requested, not that the job
    /// has stopped; false means that it had ended already.
    pub async fn stop_job(&self, id: &SubmissionId) -> Result<bool, RayError> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Answer {
            stopped: Flag,
        }
        let route = format!("/api/jobs/{}/stop", encoded(id.0.raw()));
        let request = self.request(Method::POST, &route).timeout(self.inner.limits.call);
        let body = self.body(self.send(request).await?, self.inner.limits.body).await?;
        let answer: Answer = json::read(&route, &body)?;
        Ok(answer.stopped.0)
    }

    /// A job's whole driver log (`GET /api/jobs/{id}/logs`). Ray fails with a 500 when it holds one byte that is
    /// not UTF-8; [`Client::read_job_log`] does not.
    pub async fn job_log(&self, id: &SubmissionId) -> Result<String, RayError> {
        #[derive(Deserialize)]
        struct Log {
            logs: String,
        }
        let route = format!("/api/jobs/{}/logs", encoded(id.0.raw()));
        let log: Log = json::read(&route, &self.get(&route).await?)?;
        Ok(log.logs)
    }

    /// A node's machine metrics (`GET /nodes/{id}`); `None` for a node that is dead, unknown, or has not reported.
    pub async fn physical(&self, node: NodeId) -> Result<Option<Physical>, RayError> {
        // Without `nocache` Ray returns its last response, however old.
        let route = format!("/nodes/{node}?nocache=1");
        physical::one(&route, &self.get(&route).await?)
    }

    /// The machine metrics of all nodes in one response of 10 to 17 kB per node: for small clusters only.
    pub async fn physical_all(&self) -> Result<Vec<(NodeId, Physical)>, RayError> {
        Ok(self.summary().await?.physical)
    }
}

/// The seconds of an offset: `+05:30`.
fn utc_offset(offset: &str) -> Option<i32> {
    let (sign, rest) = match offset.split_at_checked(1)? {
        ("-", rest) => (-1, rest),
        ("+", rest) => (1, rest),
        _ => return None,
    };
    let (hours, minutes) = rest.split_once(':')?;
    let number = |text: &str| text.parse::<u8>().ok().map(i32::from);
    Some(sign * (number(hours)? * 3600 + number(minutes)? * 60))
}

/// Masks every value under `env_vars`, at any depth.
fn mask(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                match field {
                    Value::Object(vars) if name == "env_vars" => {
                        vars.values_mut().for_each(|v| *v = Value::from("***"));
                    }
                    other if name == "env_vars" => *other = Value::from("***"),
                    other => mask(other),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(mask),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_is_a_number_of_seconds() {
        for (offset, seconds) in [
            ("+00:00", Some(0)),
            ("-08:00", Some(-28_800)),
            ("+05:30", Some(19_800)),
            ("Z", None),
            ("", None),
        ] {
            assert_eq!(utc_offset(offset), seconds, "{offset}");
        }
    }

    #[test]
    fn variables_of_a_runtime_environment_are_masked() {
        let mut env = serde_json::json!({
            "working_dir": "gcs://x.zip", "env_vars": {"A": "hunter2", "B": {"C": "hunter2"}},
            "container": [{"env_vars": "hunter2"}]
        });
        mask(&mut env);
        let text = env.to_string();
        assert!(
            !text.contains("hunter2") && text.contains("gcs://x.zip") && text.contains("\"A\""),
            "{text}"
        );
    }
}
