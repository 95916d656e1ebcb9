"""The table of handlers: type of command -> handler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from orchgit.replication import commands
from orchgit.replication.apply import (
    allocations,
    deployments,
    drift,
    evaluations,
    gitops,
    jobs,
    nodes,
    plans,
    restoring,
    root_keys,
    servers,
    settings,
    variables,
    volumes,
)
from orchgit.replication.events import Effects
from orchgit.state.transaction import WriteTxn

Handler = Callable[[WriteTxn, Any, Effects], object]


def _noop(txn: WriteTxn, command: commands.Noop, effects: Effects) -> None:
    """The first entry of a new leader, and that of a barrier, change nothing."""


HANDLERS: dict[type[commands.Entry], Handler] = {
    commands.Noop: _noop,
    commands.SetClusterId: settings.set_cluster_id,
    commands.RegisterJob: jobs.register_job,
    commands.DeregisterJob: jobs.deregister_job,
    commands.ChangeJob: jobs.change_job,
    commands.StopJob: jobs.stop_job,
    commands.SetJobStability: jobs.set_job_stability,
    commands.RecordPeriodicLaunch: jobs.record_periodic_launch,
    commands.ApplyRollout: gitops.apply_rollout,
    commands.ApplyCommit: gitops.apply_commit,
    commands.MoveRefs: gitops.move_refs,
    commands.RecordRollout: gitops.record_rollout,
    commands.UpsertSource: gitops.upsert_source,
    commands.StoreSource: gitops.store_source,
    commands.PutSource: gitops.put_source,
    commands.SetSourceStatus: gitops.update_source_status,
    commands.ApplyStage: gitops.apply_stage,
    commands.RecordProgress: gitops.record_progress,
    commands.RecordDrift: drift.record_drift,
    commands.RecordGates: gitops.record_gates,
    commands.RemoveSource: gitops.remove_source,
    commands.SetJobOwner: gitops.set_job_owner,
    commands.UpdateSourceStatus: gitops.update_source_status,
    commands.DeleteSource: gitops.delete_source,
    commands.DeleteRollouts: gitops.delete_rollouts,
    commands.UpsertEvaluations: evaluations.upsert_evaluations,
    commands.DeleteEvaluations: evaluations.delete_evaluations,
    commands.ApplyPlan: plans.apply_plan,
    commands.RegisterNode: nodes.register_node,
    commands.UpdateNodeStatus: nodes.update_node_status,
    commands.UpdateNodeDrain: nodes.update_node_drain,
    commands.SetNodeDrain: nodes.set_node_drain,
    commands.UpdateNodeEligibility: nodes.update_node_eligibility,
    commands.DeleteNodes: nodes.delete_nodes,
    commands.UpdateAllocsFromClient: allocations.update_allocs_from_client,
    commands.UpdateAllocTransitions: allocations.update_alloc_transitions,
    commands.UpdateDeploymentStatus: deployments.update_deployment_status,
    commands.ResumeDeployment: deployments.resume_deployment,
    commands.FailDeployment: deployments.fail_deployment,
    commands.PromoteDeployment: deployments.promote_deployment,
    commands.SetDeploymentHealth: deployments.set_deployment_health,
    commands.DeleteDeployments: deployments.delete_deployments,
    commands.SetSchedulerConfig: settings.set_scheduler_config,
    commands.UpsertNodePools: settings.upsert_node_pools,
    commands.DeleteNodePools: settings.delete_node_pools,
    commands.UpsertNamespaces: settings.upsert_namespaces,
    commands.DeleteNamespaces: settings.delete_namespaces,
    commands.UpsertHostVolume: volumes.upsert_host_volume,
    commands.SetHostVolumeStates: volumes.set_host_volume_states,
    commands.DeleteHostVolume: volumes.delete_host_volume,
    commands.DeleteVolumeClaim: volumes.delete_volume_claim,
    commands.UpsertVariable: variables.upsert_variable,
    commands.DeleteVariable: variables.delete_variable,
    commands.AcquireVariableLock: variables.acquire_variable_lock,
    commands.RenewVariableLock: variables.renew_variable_lock,
    commands.ReleaseVariableLock: variables.release_variable_lock,
    commands.ResealVariables: variables.reseal_variables,
    commands.PutRootKey: root_keys.put_root_key,
    commands.DeleteRootKey: root_keys.delete_root_key,
    commands.PutServer: servers.put_server,
    commands.DeleteServer: servers.delete_server,
    commands.SetClusterKeyCheck: servers.set_cluster_key_check,
    commands.SetServerStatus: servers.set_server_status,
    commands.SetAutopilotConfig: settings.set_autopilot_config,
    commands.BeginRestore: restoring.begin_restore,
    commands.AddRestoreChunk: restoring.add_restore_chunk,
    commands.CommitRestore: restoring.commit_restore,
    commands.AbortRestore: restoring.abort_restore,
}
