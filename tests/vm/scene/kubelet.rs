//! kubelet's calls, with its arguments and its folders, and those of a person at the machine.

use super::{Outcome, Scene, Stop, Volume};
use crate::host::image::DRIVER;
use crate::host::machine::NODE;
use crate::support::options_with;
use serde_json::Value;
use std::time::Duration;

/// Longer than any deadline of the driver's.
const LIMIT: Duration = Duration::from_secs(310);

/// The answer to a call.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    json: Value,
}

impl Reply {
    pub(crate) fn is_success(&self) -> bool {
        self.json["status"] == "Success"
    }

    pub(crate) fn message(&self) -> &str {
        self.json["message"].as_str().unwrap_or_default()
    }

    pub(crate) fn device(&self) -> &str {
        self.json["device"].as_str().unwrap_or_default()
    }
}

impl Volume {
    pub(crate) fn global(&self) -> String {
        format!("/var/lib/kubelet/plugins/kubernetes.io/flexvolume/incloud/disk/mounts/{}", self.pv)
    }

    pub(crate) fn pod(&self, uid: &str) -> String {
        format!("/var/lib/kubelet/pods/{uid}/volumes/incloud~disk/{}", self.pv)
    }

    fn options(&self) -> String {
        options_with(&self.id, &self.pv, self.fs, "rw")
    }
}

impl Scene<'_> {
    /// Calls the driver as kubelet does, whatever it answers.
    pub(crate) fn call(&mut self, arguments: &[&str]) -> Outcome<Reply> {
        let argv: Vec<&str> = [DRIVER].into_iter().chain(arguments.iter().copied()).collect();
        let (code, text) = self.machine.run(&argv, LIMIT)?;
        let shown = in_short(arguments);
        let is_line = text.ends_with('\n') && text.matches('\n').count() == 1;
        let json: Option<Value> = serde_json::from_str(&text).ok();
        let Some(json) = json.filter(|json| json.is_object() && is_line && code == Some(0)) else {
            let saw = format!("exit status {code:?}, and not one line of JSON: {text:?}");
            return Err(self.check(&shown, false, saw).expect_err("not well"));
        };
        let reply = Reply { json };
        let what = if reply.is_success() { reply.device() } else { reply.message() };
        let status = reply.json["status"].as_str().unwrap_or("?");
        self.row(shown, format!("{status} {what}"), true);
        Ok(reply)
    }

    /// A call that must succeed.
    pub(crate) fn must(&mut self, arguments: &[&str]) -> Outcome<Reply> {
        let reply = self.call(arguments)?;
        if reply.is_success() {
            return Ok(reply);
        }
        if let Some(row) = self.rows.last_mut() {
            row.well = false;
        }
        let check = format!("{} succeeds", in_short(arguments));
        Err(Stop::Wrong { check, saw: reply.message().to_owned() })
    }

    pub(crate) fn attach(&mut self, volume: &Volume) -> Outcome<Reply> {
        self.must(&["attach", &volume.options(), NODE])
    }

    /// Answers the device that kubelet is told, with what it remembers as the hint.
    pub(crate) fn wait(&mut self, volume: &Volume, hint: &str) -> Outcome<String> {
        let reply = self.must(&["waitforattach", hint, &volume.options()])?;
        Ok(reply.device().to_owned())
    }

    pub(crate) fn try_wait(&mut self, volume: &Volume) -> Outcome<Reply> {
        self.call(&["waitforattach", "", &volume.options()])
    }

    pub(crate) fn stage(&mut self, volume: &Volume, device: &str) -> Outcome<Reply> {
        self.machine.shell(&format!("mkdir -p -m 0750 {}", volume.global()))?;
        self.must(&["mountdevice", &volume.global(), device, &volume.options()])
    }

    pub(crate) fn try_stage(&mut self, volume: &Volume) -> Outcome<Reply> {
        self.call(&["mountdevice", &volume.global(), "", &volume.options()])
    }

    pub(crate) fn publish(&mut self, volume: &Volume, uid: &str) -> Outcome<Reply> {
        self.machine.shell(&format!("mkdir -p -m 0750 {}", volume.pod(uid)))?;
        self.must(&["mount", &volume.pod(uid), &volume.options()])
    }

    /// Whatever is answered: kubelet comes again, and the scenario looks at the pods.
    pub(crate) fn try_unpublish(&mut self, volume: &Volume, uid: &str) -> Outcome<Reply> {
        self.call(&["unmount", &volume.pod(uid)])
    }

    pub(crate) fn try_unstage(&mut self, volume: &Volume) -> Outcome<Reply> {
        self.call(&["unmountdevice", &volume.global()])
    }

    pub(crate) fn try_detach(&mut self, volume: &Volume) -> Outcome<Reply> {
        self.call(&["detach", &volume.pv, NODE])
    }

    /// All that kubelet does before a pod starts; answers the kernel's name of the disk.
    pub(crate) fn up(&mut self, volume: &Volume, uid: &str, hint: &str) -> Outcome<String> {
        self.attach(volume)?;
        let device = self.wait(volume, hint)?;
        self.stage(volume, &device)?;
        self.publish(volume, uid)?;
        self.letter(volume)
    }

    /// All that it does after a pod has ended, each time with the folder that it removes.
    pub(crate) fn down(&mut self, volume: &Volume, uids: &[&str]) -> Outcome {
        for uid in uids {
            self.must(&["unmount", &volume.pod(uid)])?;
            self.machine.shell(&format!("rmdir {}", volume.pod(uid)))?;
        }
        self.must(&["unmountdevice", &volume.global()])?;
        self.machine.shell(&format!("rmdir {}", volume.global()))?;
        self.must(&["detach", &volume.pv, NODE])?;
        self.check_image(volume)
    }

    /// kubelet's call that mounts the volume for the machine, killed after a moment as a restart of kubelet kills it.
    /// Whether it had come to its end before.
    pub(crate) fn stage_is_killed(
        &mut self,
        volume: &Volume,
        device: &str,
        after: Duration,
    ) -> Outcome<bool> {
        self.machine.shell(&format!("mkdir -p -m 0750 {}", volume.global()))?;
        self.is_killed(&["mountdevice", &volume.global(), device, &volume.options()], after)
    }

    /// The same with any call: whether it had come to its end before, with success.
    pub(crate) fn is_killed(&mut self, arguments: &[&str], after: Duration) -> Outcome<bool> {
        const LINE: &str = "after=$1; shift; setsid \"$@\" >/dev/null 2>&1 & call=$!; sleep $after; \
             pkill -KILL -s $call; wait $call";
        let after = after.as_secs_f64().to_string();
        let argv: Vec<&str> = ["/bin/bash", "-c", LINE, "-", &after, DRIVER]
            .into_iter()
            .chain(arguments.iter().copied())
            .collect();
        let (code, _) = self.machine.run(&argv, LIMIT)?;
        Ok(code == Some(0))
    }

    /// kubelet's call to grow a volume that is mounted.
    pub(crate) fn grow(&mut self, volume: &Volume, uid: &str, device: &str, to: u64) -> Outcome {
        let reply = self.try_grow(volume, uid, device, to)?;
        self.check("it grows", reply.is_success(), reply.message())
    }

    pub(crate) fn try_grow(
        &mut self,
        volume: &Volume,
        uid: &str,
        device: &str,
        to: u64,
    ) -> Outcome<Reply> {
        let (folder, new, old) = (volume.pod(uid), to.to_string(), super::BYTES.to_string());
        self.call(&["expandfs", &volume.options(), device, &folder, &new, &old])
    }

    /// The same, killed in device mapper's call to suspend the map, while the kernel waits for the disk.
    pub(crate) fn growing_is_killed_amid(
        &mut self,
        volume: &Volume,
        uid: &str,
        device: &str,
        to: u64,
    ) -> Outcome {
        const LINE: &str = "setsid \"$@\" >/dev/null 2>&1 & call=$!; \
             amid() { for p in $(pgrep -s $call); do grep -q ' 0xc138fd06 ' /proc/$p/syscall && return; done; false; }; \
             until amid 2>/dev/null; do kill -0 $call || exit 1; sleep 0.1; done; \
             pkill -KILL -s $call; wait $call; true";
        let (folder, new, old) = (volume.pod(uid), to.to_string(), super::BYTES.to_string());
        let options = volume.options();
        let argv = ["/bin/bash", "-c", LINE, "-", DRIVER, "expandfs", &options, device, &folder];
        let argv: Vec<&str> = argv.into_iter().chain([new.as_str(), old.as_str()]).collect();
        let (code, text) = self.machine.run(&argv, LIMIT)?;
        self.check("expandfs is killed amid a suspend", code == Some(0), text)
    }

    /// A person detaches a volume although it is used. Answers what it said.
    pub(crate) fn detach_by_force(&mut self, volume: &Volume) -> Outcome<String> {
        self.verb(&["detach", "--force", &volume.id, NODE])
    }

    /// A person's verb at the machine, which must succeed.
    pub(crate) fn verb(&mut self, arguments: &[&str]) -> Outcome<String> {
        let argv: Vec<&str> = [DRIVER].into_iter().chain(arguments.iter().copied()).collect();
        let (code, text) = self.machine.run(&argv, LIMIT)?;
        let saw = text.trim().replace('\n', "; ");
        self.check(&in_short(arguments), code == Some(0), saw)?;
        Ok(text)
    }
}

/// A call as people read it: the volume's name in place of the whole options, folders by their end.
fn in_short(arguments: &[&str]) -> String {
    let short = |argument: &&str| match serde_json::from_str::<Value>(argument) {
        Ok(json) if json.is_object() => {
            json["kubernetes.io/pvOrVolumeName"].as_str().unwrap_or("?").to_owned()
        }
        _ if argument.starts_with("/var/lib/kubelet/pods/") => {
            format!("…/{}", argument.split('/').skip(5).collect::<Vec<_>>().join("/"))
        }
        _ if argument.starts_with("/var/lib/kubelet/") => {
            format!("…/{}", argument.rsplit('/').next().unwrap_or_default())
        }
        _ if argument.is_empty() => "''".to_owned(),
        _ => (*argument).to_owned(),
    };
    arguments.iter().map(short).collect::<Vec<_>>().join(" ")
}
