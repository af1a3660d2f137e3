//! The one line of JSON that answers a call.

use crate::model::error::Error;
use crate::model::text::{shortened, visible};
use serde::Serialize;
use std::path::Path;

/// Longer messages would bury the pod's events (`kubectl describe` shows them whole).
const LONGEST_MESSAGE: usize = 900;

/// Of that, what ends it may take so much.
const LONGEST_HINT: usize = 400;

/// An answer. Optional fields are left out, for kubelet reads a missing one as its default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reply {
    status: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    message: String,
    /// The message for a person: what to do is on a line of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    for_person: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attached: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    capabilities: Option<Capabilities>,
}

/// What `init` promises. All five are written, for kubelet's defaults differ per field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[allow(clippy::struct_excessive_bools, reason = "the wire format is five booleans")]
struct Capabilities {
    attach: bool,
    selinux_relabel: bool,
    supports_metrics: bool,
    fs_group: bool,
    #[serde(rename = "requiresFSResize")]
    requires_fs_resize: bool,
}

impl Reply {
    /// Done.
    pub fn success() -> Self {
        Self {
            status: "Success",
            message: String::new(),
            for_person: None,
            device: None,
            attached: None,
            capabilities: None,
        }
    }

    /// The constant answer of `init`.
    pub fn capabilities() -> Self {
        let capabilities = Capabilities {
            attach: true,
            selinux_relabel: true,
            supports_metrics: true,
            fs_group: true,
            requires_fs_resize: true,
        };
        Self { capabilities: Some(capabilities), ..Self::success() }
    }

    /// Done, and this is the device.
    pub fn device(path: &Path) -> Self {
        Self { device: Some(path.display().to_string()), ..Self::success() }
    }

    /// The cloud was asked, and this is its answer.
    pub fn attached(attached: bool) -> Self {
        Self { attached: Some(attached), ..Self::success() }
    }

    /// This driver never does that.
    pub fn not_supported() -> Self {
        Self { status: "Not supported", ..Self::success() }
    }

    /// Not done: action, object, cause, advice, call id, in one line.
    pub fn failure(action: &str, object: &str, error: &Error, call_id: &str) -> Self {
        let subject = [action, object].into_iter().filter(|text| !text.is_empty());
        let subject = subject.collect::<Vec<_>>().join(" ");
        // What ends it stands at the end, whatever the tenants' names before it take.
        let hint = error.hint.as_ref().map(|hint| plain(&hint.to_string(), LONGEST_HINT));
        let end = hint.as_ref().map_or_else(String::new, |hint| format!("; {hint}"));
        let cause = plain(&format!("{subject}: {}", error.cause), LONGEST_MESSAGE - end.len());
        let message = format!("{cause}{end} [call {call_id}]");
        let look = object.strip_prefix("volume ").map(|volume| format!("disk explain {volume}"));
        // A hint may end with a command that destroys something: a person looks first.
        let to_do = match (hint, look) {
            (Some(hint), Some(look)) => format!("{hint}\nDetails: {look}"),
            (hint, look) => hint.or(look).unwrap_or_else(|| "disk --help".to_owned()),
        };
        let for_person = Some(format!("{cause} [call {call_id}]\nTo do: {to_do}"));
        Self { status: "Failure", message, for_person, ..Self::success() }
    }

    /// One word for the log.
    pub fn status(&self) -> &'static str {
        self.status
    }

    /// The device that is answered.
    pub fn given_device(&self) -> Option<&str> {
        self.device.as_deref()
    }

    /// The message of a failure.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The line, with its newline.
    pub fn line(&self) -> String {
        Self { for_person: None, ..self.clone() }.line_for_person()
    }

    /// The line from which `sentence` makes what a person reads.
    pub fn line_for_person(&self) -> String {
        let json = serde_json::to_string(self).unwrap_or_else(|_| {
            r#"{"status":"Failure","message":"the reply could not be written"}"#.to_owned()
        });
        json + "\n"
    }
}

/// Whether a line says that the call did what was asked.
pub fn is_success(line: &str) -> bool {
    line.starts_with(r#"{"status":"Success""#)
}

/// What a line of an answer says, in a sentence for a person who called by hand.
pub fn sentence(line: &str) -> Option<String> {
    let reply: serde_json::Value = serde_json::from_str(line).ok()?;
    let text = |key: &str| reply.get(key).and_then(serde_json::Value::as_str);
    Some(match text("status")? {
        "Success" => {
            match (text("device"), reply.get("attached").and_then(serde_json::Value::as_bool)) {
                (Some(device), _) => format!("done, the device is {device}"),
                (None, Some(true)) => "done, it is attached".to_owned(),
                (None, Some(false)) => "done, it is not attached".to_owned(),
                (None, None) => "done".to_owned(),
            }
        }
        "Failure" => {
            let message = text("forPerson").or_else(|| text("message"));
            format!("failed: {}", message.unwrap_or_default())
        }
        _ => "this driver has no such call; disk --help shows calls and verbs".to_owned(),
    })
}

/// One line that shows what it quotes, not too long, without `%`: kubelet uses the message as a format string.
fn plain(text: &str, most: usize) -> String {
    shortened(&visible(text).replace('%', " percent"), most).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn init_promises_all_five() {
        assert_eq!(
            Reply::capabilities().line(),
            "{\"status\":\"Success\",\"capabilities\":{\"attach\":true,\"selinuxRelabel\":true,\
             \"supportsMetrics\":true,\"fsGroup\":true,\"requiresFSResize\":true}}\n"
        );
    }

    #[test]
    fn a_failure_is_one_line_without_percent() {
        let error = Error::refused("100% \n\tfull \u{7}".to_owned() + &"x".repeat(5000));
        let reply = Reply::failure("mount", "volume v", &error, "c1");
        let line = reply.line();
        assert_eq!(line.matches('\n').count(), 1);
        assert!(line.contains(" … x") && line.ends_with("x [call c1]\"}\n"), "{line}");
        assert!(!line.contains('%') && line.len() < 1100);
        assert!(line.contains("mount volume v: 100 percent"), "{line}");
    }

    #[test]
    fn what_ends_a_failure_is_said_however_long_its_cause_is() {
        let error = Error::refused(format!("{} has it, end it by 'kill 1'", "/x".repeat(4000)));
        let error = error.hint("or: disk release v");
        let line = Reply::failure("unmount", "volume v", &error, "c1").line();
        assert!(line.contains("end it by 'kill 1'; or: disk release v [call c1]"), "{line}");
        assert!(line.contains("unmount volume v: /x") && line.len() < 1000, "{line}");
        let error = Error::refused("a").hint("x".repeat(4000));
        assert!(Reply::failure("unmount", "v", &error, "c1").line().len() < 1000);
    }

    #[test]
    fn an_answer_is_a_sentence_for_people() {
        let error = Error::refused("it is in use").hint("disk release v");
        let line = Reply::failure("detach", "volume v", &error, "c1").line();
        let told = "failed: detach volume v: it is in use; disk release v [call c1]";
        assert_eq!(sentence(&line).as_deref(), Some(told));
        let person = |error: &Error| {
            sentence(&Reply::failure("detach", "volume v", error, "c1").line_for_person()).unwrap()
        };
        let told = "failed: detach volume v: it is in use [call c1]\nTo do: disk release v\nDetails: disk explain v";
        assert_eq!(person(&error), told);
        let told = "failed: detach volume v: it is gone [call c1]\nTo do: disk explain v";
        assert_eq!(person(&Error::refused("it is gone")), told);
        assert_eq!(sentence(&Reply::success().line()).as_deref(), Some("done"));
        let attached = sentence(&Reply::attached(false).line());
        assert_eq!(attached.as_deref(), Some("done, it is not attached"));
        assert!(sentence(&Reply::not_supported().line()).unwrap().contains("no such call"));
        assert_eq!(sentence("{"), None);
    }

    #[test]
    fn an_answer_of_false_is_written() {
        assert_eq!(Reply::attached(false).line(), "{\"status\":\"Success\",\"attached\":false}\n");
        assert_eq!(Reply::not_supported().line(), "{\"status\":\"Not supported\"}\n");
    }
}
