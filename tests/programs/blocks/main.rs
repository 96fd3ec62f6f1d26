//! A program whose handler blocks its thread forever, for the test of its end.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kooper::__private::v1::{Definition, Program};
use kooper::Controller;
use kooper::leader::LeaderElection;
use kooper::prelude::*;

struct Blocks;

impl Definition for Blocks {
    fn define(program: &mut Program) {
        let election = LeaderElection::new()
            .lease_duration(Duration::from_secs(3))
            .renew_deadline(Duration::from_secs(2))
            .retry_period(Duration::from_secs(1));
        program.add(
            Controller::builder::<ConfigMap>("blocks")
                .fields("metadata.name=work")
                .leader_election(election)
                .handler(block),
        );
    }
}

async fn block(_object: Arc<ConfigMap>) -> Result {
    tracing::info!("the handler begins");
    loop {
        std::thread::park();
    }
}

kooper::main!(Blocks);
