//! The steps of an attach and a detach at the host, and how they fail.

use super::super::hook::{Action, Call};
use super::super::reply::Refusal;
use super::super::world::World;
use super::Row;
use super::host::{Failure, Job, Operation, Purpose, Step, Work};
use std::time::Duration;

impl World {
    /// Does one step.
    pub(super) fn run_step(&mut self, step: Step) {
        match step {
            Step::Reserve(number) => self.reserve_device(number),
            Step::Connect(number) => self.connect(number),
            Step::Plug(number) => self.plug(number),
            Step::Unplug(number) => self.unplug(number),
            Step::DropRow(number) => self.drop_row(number),
            Step::Extend { volume, size, back } => self.extended(volume, size, back),
            Step::Cleanup { volume, attachment } => {
                self.storage.drop_attachment(&volume, &attachment);
            }
        }
    }

    fn operation(&self, number: u64) -> Option<Operation> {
        self.hosts.operations.get(&number).cloned()
    }

    /// Makes Nova's row, with the next device name.
    fn reserve_device(&mut self, number: u64) {
        let Some(operation) = self.operation(number) else { return };
        let outcome = self.try_reserve(&operation);
        let recorded = self.clock.now() + Duration::from_millis(self.settings.delays.record);
        if let Some(known) = self.hosts.operations.get_mut(&number) {
            known.outcome = Some(outcome);
            known.recorded = recorded;
        }
        self.finish(number);
    }

    fn try_reserve(&mut self, operation: &Operation) -> Result<(), Refusal> {
        let Operation { server, volume, .. } = operation;
        let (prefix, max) = (self.settings.device_prefix.clone(), self.settings.max_disks);
        let gone = || Refusal::missing(format!("Instance {server} could not be found."));
        let server = self.compute.server_mut(server).ok_or_else(gone)?;
        // The racing twin, and a second attach of a multiattach volume (C20, I5).
        if server.row(volume).is_some() {
            return Err(Refusal::bad(format!("Invalid volume: volume {volume} already attached")));
        }
        // The root disk counts (M1).
        if let Some(max) = max.filter(|max| server.rows.len() + 2 > *max) {
            return Err(Refusal::new(
                403,
                format!(
                    "The maximum allowed number of disk devices ({max}) to attach to a single \
                     instance has been exceeded."
                ),
            ));
        }
        let device = server.free_device(&prefix);
        server.rows.push(Row { volume: volume.clone(), device, attachment: None });
        Ok(())
    }

    fn connect(&mut self, number: u64) {
        let Some(operation) = self.operation(number) else { return };
        let Work::Attach { attachment } = &operation.work else { return };
        let volume = &operation.volume;
        // The volume is connected there already by an attachment that Nova forgot (H15).
        let twin = self.storage.volume(volume).is_some_and(|volume| {
            let mut others = volume.attachments.iter().filter(|known| known.id != *attachment);
            others.any(|known| known.server == operation.server && known.is_complete())
        });
        if twin {
            self.undo_attach(number);
            return;
        }
        self.storage.connect(volume, attachment);
        let delay = Duration::from_millis(self.settings.delays.attaching);
        self.later(delay, Step::Plug(number));
    }

    fn plug(&mut self, number: u64) {
        let Some(operation) = self.operation(number) else { return };
        if self.hosts.takes_failure(&operation.volume, Failure::AttachDriver) {
            self.undo_attach(number);
        } else if self.hook.is_some() {
            self.call_hook(Action::Attach, number, &operation);
        } else {
            self.plugged(number);
        }
    }

    /// Lets the hook do its part in a thread of its own; it comes back by [`World::hook_ended`].
    fn call_hook(&mut self, action: Action, number: u64, operation: &Operation) {
        let Operation { server, volume, .. } = operation;
        let row = self.compute.server(server).and_then(|server| server.row(volume));
        let call = Call {
            action,
            volume: volume.clone(),
            server: server.clone(),
            device: row.map(|row| row.device.clone()).unwrap_or_default(),
            size: self.storage.volume(volume).map_or(0, |volume| volume.size),
        };
        self.hosts.jobs.push(Job { call, purpose: Purpose::Operation(number) });
    }

    /// The hook has ended.
    pub fn hook_ended(&mut self, purpose: &Purpose, well: bool) {
        let number = match purpose {
            Purpose::Operation(number) => *number,
            Purpose::Extend { volume, size, back } => {
                self.end_extend(volume, *size, back, well);
                return;
            }
        };
        let attach = self
            .operation(number)
            .is_some_and(|operation| matches!(operation.work, Work::Attach { .. }));
        match (attach, well) {
            (true, true) => self.plugged(number),
            (true, false) => self.undo_attach(number),
            (false, true) => self.unplugged(number),
            (false, false) => self.undo_detach(number),
        }
    }

    fn plugged(&mut self, number: u64) {
        let Some(operation) = self.operation(number) else { return };
        let Operation { server, volume, work, request, .. } = &operation;
        let Work::Attach { attachment } = work else { return };
        let now = self.clock.unix();
        let row = self.compute.server(server).and_then(|server| server.row(volume));
        let device = row.map(|row| row.device.clone()).unwrap_or_default();
        self.storage.complete(volume, attachment, &device, now);
        self.end_action(server, request, "Success");
        self.finish(number);
    }

    /// A failed attach leaves no trace but the instance action (D2 to D4).
    fn undo_attach(&mut self, number: u64) {
        let Some(operation) = self.operation(number) else { return };
        let Operation { server, volume, work, request, .. } = &operation;
        let Work::Attach { attachment } = work else { return };
        self.storage.drop_attachment(volume, attachment);
        if let Some(server) = self.compute.server_mut(server) {
            server.rows.retain(|row| row.volume != *volume);
        }
        self.end_action(server, request, "Error");
        self.finish(number);
    }

    fn unplug(&mut self, number: u64) {
        let Some(operation) = self.operation(number) else { return };
        if self.hosts.takes_failure(&operation.volume, Failure::DetachDriver) {
            self.undo_detach(number);
        } else if self.hook.is_some() {
            self.call_hook(Action::Detach, number, &operation);
        } else {
            self.unplugged(number);
        }
    }

    /// Cinder says `available` now, Nova's row dies a moment later.
    fn unplugged(&mut self, number: u64) {
        let Some(operation) = self.operation(number) else { return };
        let Operation { server, volume, .. } = &operation;
        let row = self.compute.server(server).and_then(|server| server.row(volume));
        if let Some(attachment) = row.and_then(|row| row.attachment.clone()) {
            self.storage.drop_attachment(volume, &attachment);
        }
        let now = self.clock.unix();
        if let Some(volume) = self.storage.volume_mut(volume) {
            volume.updated = now;
        }
        self.later(Duration::from_millis(self.settings.delays.row), Step::DropRow(number));
    }

    fn drop_row(&mut self, number: u64) {
        let Some(operation) = self.operation(number) else { return };
        let Operation { server, volume, request, .. } = &operation;
        if let Some(server) = self.compute.server_mut(server) {
            server.rows.retain(|row| row.volume != *volume);
        }
        self.end_action(server, request, "Success");
        self.finish(number);
    }

    fn undo_detach(&mut self, number: u64) {
        let Some(operation) = self.operation(number) else { return };
        self.storage.roll_detaching(&operation.volume);
        self.end_action(&operation.server, &operation.request, "Error");
        self.finish(number);
    }

    /// The back end has grown the volume; a guest that has it is told by the hook.
    fn extended(&mut self, volume: String, size: u64, back: String) {
        if self.hosts.takes_failure(&volume, Failure::Extend) {
            self.end_extend(&volume, size, &back, false);
            return;
        }
        let server = self.compute.servers_with(&volume).first().map(|id| (*id).to_owned());
        let Some(server) = server.filter(|_| self.hook.is_some()) else {
            self.end_extend(&volume, size, &back, true);
            return;
        };
        let device = String::new();
        let call = Call { action: Action::Extend, volume: volume.clone(), server, device, size };
        self.hosts.jobs.push(Job { call, purpose: Purpose::Extend { volume, size, back } });
    }

    fn end_extend(&mut self, volume: &str, size: u64, back: &str, well: bool) {
        let Some(volume) = self.storage.volume_mut(volume) else { return };
        if well {
            volume.size = size;
            volume.set_status(back);
        } else {
            volume.set_status("error_extending");
        }
    }
}
