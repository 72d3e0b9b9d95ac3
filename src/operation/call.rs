//! The calls and commands by which an operation makes changes, as a dry run records them: one line each, or a JSON
//! object.

use serde::Serialize;
use serde_json::{Value, json};
use std::fmt;

/// One call or command of an operation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Call {
    /// The request or command itself.
    #[serde(flatten)]
    pub kind: CallKind,
    /// When or why the call is made, if its kind does not show that.
    pub note: Option<String>,
}

/// The kind of change; `kind` in JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum CallKind {
    /// An HTTP call to Google, or to the dashboard if the URL is a path (`/ray.rpc...`: gRPC, to the GCS).
    Http {
        /// HTTP method: `GET`, `POST`, `PUT`, `PATCH` or `DELETE`.
        method: &'static str,
        /// Full URL of the request.
        url: String,
        /// The JSON that is sent, without secrets; null if there is none, and for a package.
        body: Value,
    },
    /// A command on this machine.
    Run {
        /// The command line for a shell.
        command: String,
    },
    /// A command on another machine.
    Ssh {
        /// Host that the command runs on.
        host: String,
        /// The command line for its shell.
        command: String,
        /// Its standard input; null for none, and for a token.
        input: Option<String>,
    },
    /// A copy to another machine.
    Copy {
        /// Host that the file is copied to.
        host: String,
        /// A local file or directory.
        from: String,
        /// Destination path on the host.
        to: String,
    },
}

impl Call {
    /// An HTTP call without a JSON body.
    pub fn http(method: &'static str, url: impl Into<String>) -> Self {
        Self::of(CallKind::Http { method, url: url.into(), body: Value::Null })
    }

    /// An HTTP call with this body.
    pub fn post(url: impl Into<String>, body: Value) -> Self {
        Self::of(CallKind::Http { method: "POST", url: url.into(), body })
    }

    /// A command run on this machine.
    pub fn run(command: impl Into<String>) -> Self {
        Self::of(CallKind::Run { command: command.into() })
    }

    /// A command run on a host over ssh.
    pub fn ssh(host: impl Into<String>, command: impl Into<String>) -> Self {
        Self::of(CallKind::Ssh { host: host.into(), command: command.into(), input: None })
    }

    /// A command run on a host over ssh with this input.
    pub fn ssh_with(host: impl Into<String>, command: impl Into<String>, input: &str) -> Self {
        Self::of(CallKind::Ssh { host: host.into(), command: command.into(), input: Some(input.to_owned()) })
    }

    /// A copy of a local file to a host.
    pub fn copy(host: impl Into<String>, from: impl Into<String>, to: impl Into<String>) -> Self {
        Self::of(CallKind::Copy { host: host.into(), from: from.into(), to: to.into() })
    }

    /// Adds a note.
    #[must_use]
    pub fn noted(self, note: impl Into<String>) -> Self {
        Self { note: Some(note.into()), ..self }
    }

    fn of(kind: CallKind) -> Self {
        Self { kind, note: None }
    }
}

/// Formats the call on one line. A call with a body is printed as JSON that can be sent unchanged.
impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            CallKind::Http { method, url, body: Value::Null } => write!(f, "{method} {url}")?,
            CallKind::Http { method, url, body } => {
                write!(f, "{}", json!({"method": method, "url": url, "body": body}))?;
            }
            CallKind::Run { command } => write!(f, "{command}")?,
            CallKind::Ssh { host, command, .. } => write!(f, "ssh {host} {command}")?,
            CallKind::Copy { host, from, to } => write!(f, "copy {from} to {host}:{to}")?,
        }
        self.note.as_ref().map_or(Ok(()), |note| write!(f, "    ({note})"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_a_line_for_people_and_an_object_for_scripts() {
        let both = |call: &Call| (call.to_string(), serde_json::to_value(call).unwrap());
        let delete = Call::http("DELETE", "https://tpu/v2/nodes/a").noted("by hand");
        let expected = json!({"kind": "http", "method": "DELETE", "url": "https://tpu/v2/nodes/a", "body": null,
            "note": "by hand"});
        assert_eq!(both(&delete), ("DELETE https://tpu/v2/nodes/a    (by hand)".into(), expected));
        let (line, object) = both(&Call::post("https://tpu", json!({"a": 1})));
        let sent: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(sent, json!({"method": "POST", "url": "https://tpu", "body": {"a": 1}}));
        assert_eq!(
            (&object["kind"], &object["body"], &object["note"]),
            (&json!("http"), &sent["body"], &Value::Null)
        );
        let mut ssh = json!({"kind": "ssh", "host": "h", "command": "ray stop", "input": null, "note": null});
        assert_eq!(both(&Call::ssh("h", "ray stop")), ("ssh h ray stop".into(), ssh.clone()));
        ssh["input"] = "#!".into();
        assert_eq!(both(&Call::ssh_with("h", "ray stop", "#!")), ("ssh h ray stop".into(), ssh));
        let run = json!({"kind": "run", "command": "ray up", "note": null});
        assert_eq!(both(&Call::run("ray up")), ("ray up".into(), run));
        let copy = json!({"kind": "copy", "host": "h", "from": "/a", "to": "~/a", "note": null});
        assert_eq!(both(&Call::copy("h", "/a", "~/a")), ("copy /a to h:~/a".into(), copy));
    }
}
