use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret as S, Service};
use kooper::prelude::*;
use std::future::{pending as connect, poll_fn as users, ready as end};

#[kooper::controller(resorce = Pod, owns = Service, init = connect(), watches = [ConfigMap, S => users], cleanup = end)]
async fn echo(_: Call) {}
