//! `ballista-here scheduler …` and `ballista-here executor …`: Ballista's scheduler and executor with all their options, in the
//! version that bootscope-lake uses. Tests start them on this machine.

use ballista_core::error::{BallistaError, Result};
use ballista_core::object_store::{
    runtime_env_with_s3_support, session_config_with_s3_support, session_state_with_s3_support,
};
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use ballista_scheduler::cluster::BallistaCluster;
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_process::start_server;
use clap::Parser;
use std::net::AddrParseError;
use std::sync::Arc;

#[derive(Parser)]
enum Part {
    /// Hands out the parts of a query
    Scheduler(ballista_scheduler::config::Config),
    /// Works on the parts of a query
    Executor(ballista_executor::config::Config),
}

#[tokio::main]
async fn main() -> Result<()> {
    match Part::parse() {
        Part::Scheduler(config) => scheduler(config).await,
        Part::Executor(config) => executor(config).await,
    }
}

async fn scheduler(config: ballista_scheduler::config::Config) -> Result<()> {
    let address = format!("{}:{}", config.bind_host, config.bind_port);
    let address = address.parse().map_err(|e: AddrParseError| BallistaError::Configuration(e.to_string()))?;
    let config: SchedulerConfig = config.try_into()?;
    let config = config
        .with_override_config_producer(Arc::new(session_config_with_s3_support))
        .with_override_session_builder(Arc::new(session_state_with_s3_support));
    let cluster = BallistaCluster::new_from_config(&config).await?;
    start_server(cluster, address, Arc::new(config)).await
}

async fn executor(config: ballista_executor::config::Config) -> Result<()> {
    let mut config: ExecutorProcessConfig = config.try_into()?;
    config.override_config_producer = Some(Arc::new(session_config_with_s3_support));
    config.override_runtime_producer = Some(Arc::new(runtime_env_with_s3_support));
    start_executor_process(Arc::new(config)).await
}
