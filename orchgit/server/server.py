"""The composition root: builds every part in order, starts them, and stops them in reverse."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import structlog
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from orchgit.api.access.callers import TokenCallers
from orchgit.api.access.control import AccessControl
from orchgit.api.access.objects import StateObjects
from orchgit.api.app import create_app
from orchgit.api.consistency import Consistency
from orchgit.api.context import ApiContext, LocalNode
from orchgit.api.event_buffer import EventBuffer
from orchgit.api.metric_collection import collected
from orchgit.api.ui.routes import Ui
from orchgit.clock import Clock, SystemClock
from orchgit.control.leader import Control
from orchgit.control.leader_client.router import LeaderRouter
from orchgit.control.watchers.csi_claims import CsiClaimWatcher
from orchgit.control.workers.pool import PoolConfig, WorkerPool
from orchgit.errors import OrchgitError
from orchgit.gitops.commits.forecast import SchedulerForecaster
from orchgit.gitops.gitops import Gitops, GitopsPorts
from orchgit.gitops.mirrors.peers import PeerClient
from orchgit.gitops.parsing.job_parser import JobspecParser
from orchgit.gitops.parsing.pool import ParsePool
from orchgit.ids import IdSource, RandomIds
from orchgit.metrics.push import push_forever
from orchgit.metrics.values import Metric
from orchgit.model.rollout import Rollout
from orchgit.replication.replicated import ReplicatedState, ReplicationConfig
from orchgit.rpc.http_forwarding import HttpForwarder
from orchgit.rpc.membership import MembershipServicer
from orchgit.rpc.serve import RpcServer, RpcSettings
from orchgit.server.audit.audit_log import audit_log
from orchgit.server.config import ServerConfig
from orchgit.server.http.kept_requests import KeptRequests
from orchgit.server.http.server import HttpServer, check_certificate
from orchgit.server.leader_duties import LeaderDuties
from orchgit.server.membership.addresses import advertised
from orchgit.server.membership.applied_everywhere import AppliedEverywhere
from orchgit.server.membership.identity import cluster_key, server_id_of
from orchgit.server.membership.joining import Joining
from orchgit.server.membership.records import RecordKeeper, own_record
from orchgit.server.ports.agent_access import authorizer
from orchgit.server.ports.audited import audited_by
from orchgit.server.ports.facts import Facts
from orchgit.server.ports.git_callers import GitCallers
from orchgit.server.ports.git_peers import ClusterPeers
from orchgit.server.ports.gitops import ApiGitops
from orchgit.server.ports.job_texts import JobTexts
from orchgit.server.ports.leadership import ServerLeadership
from orchgit.server.ports.membership import MembershipOperations
from orchgit.server.ports.metrics import server_metrics
from orchgit.server.ports.task_output import TaskOutput
from orchgit.server.tasks import end_tasks, log_failure, within
from orchgit.server.tracing import RolloutTracing, otlp_exporter
from orchgit.services.acl.providers import IdentityProviders
from orchgit.services.acl.settings import RESET_FILE
from orchgit.services.cluster.membership import add_server, remove_server
from orchgit.services.cluster.server_directory import ServerDirectory
from orchgit.services.cluster.snapshots import remove_leftovers
from orchgit.services.context import UseCaseContext
from orchgit.services.jobs.dry_run import DryRun
from orchgit.services.secrets.keyring import Keyring
from orchgit.services.services import Services
from orchgit.services.task_reads import everything
from orchgit.sql.runner import SqlRunner
from orchgit.wire.channel import LeaderChannel

_log = structlog.get_logger(component="server")
_LEADER_NEWS_S = 3600.0
_LEAVE_S = 15.0


class Server:
    """One server. `start` returns when HTTP and RPC are answered; leadership follows by itself.

    `extra_routes` come after the API's: the UI, and whatever else the caller serves.
    """

    def __init__(
        self,
        config: ServerConfig,
        clock: Clock | None = None,
        ids: IdSource | None = None,
        extra_routes: Sequence[BaseRoute] = (),
    ) -> None:
        self.config = config
        clock, ids = clock or SystemClock(), ids or RandomIds()
        server_id = server_id_of(config, ids)
        key = cluster_key(config)
        self.state = ReplicatedState(
            ReplicationConfig(
                data_dir=config.server_dir,
                server_id=server_id,
                bind=config.raft_bind,
                advertise=config.raft_address,
                bootstrap=not config.join.waits,
                needs_admission=config.join.waits,
                peers=config.peers,
                cluster=config.region,
                tls=config.tls,
            ),
            clock,
            ids,
        )
        servers = config.join.bootstrap_expect or 0
        autopilot = replace(config.control.autopilot, bootstrap_expect=servers)
        control = replace(config.control, autopilot=autopilot)
        self.control = Control(self.state, clock, ids, control, self._csi_watchers)
        context = UseCaseContext(self.state, clock, ids, config.job_settings)
        keyring = Keyring(context, key)
        acl = replace(config.acl, reset_file=config.server_dir / RESET_FILE)
        self.services = Services(
            context,
            keyring,
            self.control.collect_garbage,
            config.oidc_issuer,
            acl,
            IdentityProviders(clock),
            config.introductions,
            config.search,
        )
        self.dry_run = DryRun(self.services.context)
        self.rpc: RpcServer | None = None
        self._clock, self._ids = clock, ids
        record = own_record(config, server_id, config.name or os.uname().nodename, key)
        self.directory = ServerDirectory(self.state, clock, lambda: self.facts.record)
        self.facts = Facts(config, record, self.state, self.control, self.directory)
        self._tracing = (
            RolloutTracing(context, otlp_exporter(config.traces), server_id)
            if config.traces is not None
            else None
        )
        callers = TokenCallers(lambda: self.state.store, clock.now_ns)
        self._callers = callers if config.acl.enabled else None
        """Finds who is behind a token; None: access control is off."""
        gitops_ports = GitopsPorts(
            parser=JobspecParser(ParsePool(config.gitops.parsing)),
            forecaster=SchedulerForecaster(self.dry_run),
            peers=ClusterPeers(self.state, self.directory, lambda: self.facts.record),
            peer_client=PeerClient(config.tls),
            logs=TaskOutput(lambda: self._app.serve),
            on_rollout_ended=self._rollout_ended,
            callers=GitCallers(self._callers) if self._callers else None,
        )
        gitops_config = replace(config.gitops, region=config.region)
        self.gitops = Gitops(self.services.context, config.data_dir, gitops_config, gitops_ports)
        self.joining = Joining(
            config.join, self.state, lambda: self.facts.record, config.tls, clock
        )
        self.events = EventBuffer()
        self._job_texts = JobTexts()
        access = AccessControl(callers, StateObjects(self.services.context.snapshot))
        self._api = ApiContext(
            services=self.services,
            server=self.facts,
            dry_run=self.dry_run,
            events=self.events,
            cluster=MembershipOperations(self.joining, self.directory, self.control),
            job_texts=self._job_texts,
            sql=SqlRunner(lambda: self.state.store.path),
            gitops=ApiGitops(self.gitops, gitops_config),
            scrape=self._metrics,
            telemetry=config.telemetry,
            agents_tls=config.agents_tls,
            access=access if config.acl.enabled else None,
        )
        ui = Ui(lambda: self.front, self.events, clock, config.ui_label)
        pages = ui.routes if config.ui_enabled else ()
        self._app = create_app(self._api, [*self.gitops.routes, *pages, *extra_routes])
        everywhere = AppliedEverywhere(
            self.directory,
            lambda: self.facts.record,
            self.state.cluster.peer_progress,
            config.tls,
        )
        self._api.until_applied_everywhere = everywhere.wait
        self._everywhere = everywhere
        self._forwarder = HttpForwarder(self.directory, lambda: self.facts.record, config.tls)
        leadership = ServerLeadership(self.state)
        self.front = Consistency(
            self._app.serve,
            leadership,
            self._app.knows_node,
            self._forwarder.forward,
            self._forwarder.app_of,
            clock,
        )
        audit = audit_log(config.audit, config.data_dir, clock, ids, audited_by(self._callers))
        self.http = HttpServer(
            self.front,
            config.http_bind,
            config.http_access,
            KeptRequests(lambda: leadership.is_leader and leadership.leads_for_certain),
            audit,
        )
        self._of_agents: ASGIApp = self.front
        """Answers what agents pass on: for their tasks, and for clients of their own HTTP."""
        if audit is not None:
            self._of_agents = audit.around(self.front, lambda: self.rpc_address)
        self._leader_duties = LeaderDuties(
            config, self.services, self.gitops, self._end_streams, clock
        )
        self._workers: WorkerPool | None = None
        self._leader_channel: LeaderChannel
        """The workers' channel to the leader, where this server does not lead."""
        self._tasks: list[asyncio.Task[None]] = []
        self._unfit: asyncio.Future[None]

    def _csi_watchers(self) -> tuple[CsiClaimWatcher]:
        return (CsiClaimWatcher(self.state.store, self._clock, self.services.csi.release),)

    @property
    def http_address(self) -> str:
        return self.facts.record.http_address

    @property
    def http_url(self) -> str:
        return f"{'https' if self.config.http_tls else 'http'}://{self.http_address}"

    @property
    def rpc_address(self) -> str:
        return self.facts.record.rpc_address

    @property
    def workers(self) -> WorkerPool:
        """The worker pool; exists after `start`."""
        assert self._workers is not None
        return self._workers

    async def start(self) -> None:
        self._unfit = asyncio.get_running_loop().create_future()
        self.http.bind()
        config = self.config
        self.facts.bound(http=advertised("http", self.http.address, config.http_advertise))
        if config.http_tls is not None:
            check_certificate(config.http_tls, self.http_address)
        remove_leftovers(self.config.server_dir / "state")
        await self.state.start()
        await self._start_rpc()
        keeper = RecordKeeper(self.state, self.facts.record)
        keeper.check_key()
        await self.joining.start()
        self.gitops.open()
        await self._start_workers()
        await self.control.start()
        loops = (
            self._feed_events(),
            self._leader_duties.run(),
            self._tell_workers(),
            self._keep_fit(keeper.run),
            self._keep_fit(self.joining.run),
        )
        traces = (self._tracing.run(),) if self._tracing is not None else ()
        push = config.telemetry.push
        pushes = (
            (push_forever(push, partial(collected, self._api), self._clock),) if push.is_on else ()
        )
        wanted = (*loops, *traces, *pushes)
        self._tasks = [asyncio.create_task(loop, name="server") for loop in wanted]
        for task in self._tasks:
            task.add_done_callback(log_failure)
        await self.http.start()
        if config.acl.enabled and config.tls is None:
            _log.warning(
                "access control is on, but RPC has no certificates: every program on this machine "
                "can act as a server",
                remedy="orchgit tls ca create, and a tls section in the configuration",
            )
        _log.info("server started", http=self.http_url, rpc=self.rpc_address)

    async def stop(self) -> None:
        """Stops the parts in reverse order; each gets its share of the deadline, and is cut after
        it."""
        deadline_s = self.config.stop_timeout_s
        self.events.close()
        await self.http.stop(deadline_s / 4)
        await self._app.close()
        await self._forwarder.close()
        await self._everywhere.close()
        await self.joining.close()
        await end_tasks(self._tasks)
        await within(deadline_s / 4, self.gitops.close(), "gitops")
        await self._job_texts.close()
        if self._workers is not None:
            await within(deadline_s / 2, self._workers.stop(), "workers")
            await within(deadline_s / 4, self._leader_channel.close(), "leader's channel")
        await within(deadline_s / 4, self.control.stop(), "control")
        if self.rpc is not None:
            await within(deadline_s / 4, self.rpc.stop(), "rpc")
        await self.state.stop()
        _log.info("server stopped")

    def attach_client(
        self,
        node_id: Callable[[], str],
        app: ASGIApp,
        metrics: Callable[[], Awaitable[Sequence[Metric]]],
        stats: Callable[[], Mapping[str, str]],
    ) -> None:
        """Serves `/v1/client` of the node whose agent runs in this process with `app`, and its
        metrics and `stats` with the server's."""
        self._api.local_node = LocalNode(node_id, app, metrics=metrics, stats=stats)

    def attach_reload(self, reload: Callable[[], None]) -> None:
        """Has `/v1/agent/reload` call this."""
        self._api.reload = reload

    # -- parts -------------------------------------------------------------------------------------

    async def _start_rpc(self) -> None:
        config = self.config
        self.rpc = RpcServer(
            RpcSettings(
                bind=config.rpc_bind,
                server_id=self.facts.server_id,
                tls=config.tls,
                region=config.region,
                limits=config.limits,
                translate=self.directory.translated,
                authorize=authorizer(self._api.access, self._callers),
                task_api=self._of_agents,
                rights_of_task=self._callers.workload_rights if self._callers else everything,
            ),
            self.services,
            self.control,
            self.state.store,
            self.directory,
            http=self.front.forwarded,
            mirrors=self.gitops.synchronizer,
            membership=MembershipServicer(
                self.joining,
                partial(add_server, self.services.context),
                partial(remove_server, self.services.context),
            ),
        )
        await self.rpc.start()
        self.facts.bound(rpc=advertised("rpc", self.rpc.address, config.rpc_advertise))

    async def leave(self) -> None:
        """Leaves the cluster for good, before `stop`: the others do not count on this server."""
        try:
            async with asyncio.timeout(_LEAVE_S):
                await self.joining.leave()
            _log.info("left the cluster")
        except (OrchgitError, TimeoutError) as error:
            _log.warning(
                "cannot leave the cluster; the others will miss this server", error=str(error)
            )

    async def _start_workers(self) -> None:
        config = self.config
        pool = PoolConfig(
            store=self.state.store.path,
            count=config.num_schedulers,
            types=config.enabled_schedulers,
        )
        self._leader_channel = LeaderChannel([self.rpc_address], config.tls)
        leader = LeaderRouter(self.control, self._leader_channel)
        self._workers = WorkerPool(pool, self._clock, self._ids, leader, self.control.worker_gone)
        self.facts.workers = self._workers
        await self._workers.start()

    async def _keep_fit(self, loop: Callable[[], Awaitable[None]]) -> None:
        """Runs a loop whose refusal means that this server cannot be part of the cluster."""
        try:
            await loop()
        except OrchgitError as error:
            _log.error("this server cannot be part of the cluster", error=str(error))
            if not self._unfit.done():
                self._unfit.set_exception(error)
                self._unfit.exception()

    async def unfit(self) -> None:
        """Waits until this server must not go on, and raises the error that says why."""
        await asyncio.shield(self._unfit)

    async def _feed_events(self) -> None:
        async for batch in self.state.subscribe():
            if batch.replaced:
                self.events.miss()
            if batch.effects.notes:
                self.events.add(batch)

    def _end_streams(self) -> None:
        if self.rpc is not None:
            self.rpc.nodes.end_all()

    async def _tell_workers(self) -> None:
        """Sends workers that wait for the answer of a former leader to the new one."""
        term = 0
        while True:
            leader, term_now = await self.directory.leader_after(term, _LEADER_NEWS_S)
            if leader and term_now > term:
                term = term_now
                self._leader_channel.follow(leader)
                record = self.directory.leader()
                name = record.name if record is not None else ""
                _log.info("the leader is known", leader=name, address=leader, term=term)

    def _rollout_ended(self, rollout: Rollout) -> None:
        if self._tracing is not None:
            self._tracing.ended(rollout)

    def _metrics(self) -> Sequence[Metric]:
        in_flight = self.rpc.forwarded_in_flight if self.rpc is not None else 0
        refused = self.http.refused_connections
        return list(server_metrics(self.state, self.control, self.gitops, in_flight, refused))
