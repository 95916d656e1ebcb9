// A user of Nomad's own Go client: each step prints its name, and ends the program if it fails.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/hashicorp/nomad/api"
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func check(good bool, what string, values ...any) {
	if !good {
		panic(fmt.Sprintf("%s: %v", what, values))
	}
}

func step(name string, work func()) {
	work()
	fmt.Println(name)
}

// until asks every 50 ms, for at most 30 s.
func until(what string, reached func() bool) {
	for start := time.Now(); time.Since(start) < 30*time.Second; time.Sleep(50 * time.Millisecond) {
		if reached() {
			return
		}
	}
	panic("never: " + what)
}

func newJob(id, kind, script string) *api.Job {
	task := api.NewTask("t", "raw_exec")
	task.SetConfig("command", "/bin/sh").SetConfig("args", []string{"-c", script})
	cpu, memory := 20, 16
	task.Resources = &api.Resources{CPU: &cpu, MemoryMB: &memory}
	group := api.NewTaskGroup("g", 1)
	group.AddTask(task)
	if kind == "service" {
		states, soon := "task_states", time.Millisecond
		group.Update = &api.UpdateStrategy{HealthCheck: &states, MinHealthyTime: &soon}
	}
	job := api.NewServiceJob(id, id, "global", 50)
	job.Type = &kind
	job.Datacenters = []string{"*"}
	job.AddTaskGroup(group)
	return job
}

func main() {
	client := must(api.NewClient(&api.Config{Address: os.Args[1]}))
	jobs, evals, allocs := client.Jobs(), client.Evaluations(), client.Allocations()
	service := newJob("go-service", "service", "echo one; echo two; echo kept > local/f; exec sleep 1000")
	var alloc *api.Allocation

	step("plan", func() {
		plan, _, err := jobs.Plan(service, true, nil)
		must(plan, err)
		check(plan.Annotations.DesiredTGUpdates["g"].Place == 1, "places one", plan.Annotations)
	})
	step("register and evaluation", func() {
		done, _, err := jobs.Register(service, nil)
		must(done, err)
		until("evaluation complete", func() bool {
			found, _, err := evals.Info(done.EvalID, nil)
			return must(found, err).Status == "complete"
		})
		found, _, err := evals.List(nil)
		check(len(must(found, err)) > 0, "evaluations are listed")
	})
	step("allocation", func() {
		until("running", func() bool {
			found, _, err := jobs.Allocations("go-service", true, nil)
			return len(must(found, err)) == 1 && found[0].ClientStatus == "running"
		})
		list, _, err := jobs.Allocations("go-service", true, nil)
		info, _, err := allocs.Info(must(list, err)[0].ID, nil)
		alloc = must(info, err)
		check(*alloc.Job.ID == "go-service", "allocation has its job")
		short := strings.ReplaceAll(alloc.ID, "-", "")[:12]
		matches, _, err := allocs.PrefixList(short)
		check(len(must(matches, err)) == 1 && matches[0].ID == alloc.ID, "found by", short)
	})
	step("deployment", func() {
		until("deployment successful", func() bool {
			found, _, err := jobs.LatestDeployment("go-service", nil)
			return must(found, err).Status == "successful"
		})
	})
	step("files", func() {
		files := must2(client.AllocFS().List(alloc, "/", nil))
		check(len(files) == 2, "top", files)
		stream := must(client.AllocFS().ReadAt(alloc, "t/local/f", 1, -1, nil))
		check(string(must(io.ReadAll(stream))) == "ept\n", "read to the end")
	})
	step("followed logs", func() {
		cancel := make(chan struct{})
		defer close(cancel)
		frames, problems := client.AllocFS().Logs(alloc, true, "t", "stdout", api.OriginEnd, 0, cancel, nil)
		select {
		case frame := <-frames:
			check(string(frame.Data) == "one\ntwo\n", "what is there", string(frame.Data))
		case err := <-problems:
			panic(err)
		case <-time.After(20 * time.Second):
			panic("no frame")
		}
	})
	step("exec", func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		var out strings.Builder
		code := must(allocs.Exec(ctx, alloc, "t", false, []string{"echo", "hi"},
			strings.NewReader(""), &out, io.Discard, nil, nil))
		check(code == 0 && out.String() == "hi\n", "exec", code, out.String())
	})
	step("stats", func() { must(allocs.Stats(alloc, nil)) })
	step("search", func() {
		found, _, err := client.Search().PrefixSearch("go-serv", "jobs", nil)
		check(must(found, err).Matches["jobs"][0] == "go-service", "search", found)
	})
	step("scale", func() {
		count := 2
		done, _, err := jobs.Scale("go-service", "g", &count, "m", false, nil, nil)
		must(done, err)
		status, _, err := jobs.ScaleStatus("go-service", nil)
		check(must(status, err).TaskGroups["g"].Desired == 2, "scaled")
	})
	step("periodic", func() {
		job, spec, on := newJob("go-periodic", "batch", "true"), "0 0 1 1 *", true
		job.Periodic = &api.PeriodicConfig{Enabled: &on, Spec: &spec}
		plan, _, err := jobs.Plan(job, true, nil)
		check(must(plan, err).Annotations != nil && !plan.NextPeriodicLaunch.IsZero(), "plan", plan)
		must2(jobs.Register(job, nil))
		must2(jobs.PeriodicForce("go-periodic", nil))
	})
	step("dispatch", func() {
		job := newJob("go-dispatch", "batch", "true")
		job.ParameterizedJob = &api.ParameterizedJobConfig{MetaRequired: []string{"m"}}
		must2(jobs.Register(job, nil))
		must2(jobs.Dispatch("go-dispatch", map[string]string{"m": "1"}, nil, "", nil))
	})
	step("nodes", func() {
		nodes := must2(client.Nodes().List(nil))
		node := must2(client.Nodes().Info(nodes[0].ID, nil))
		must(client.Nodes().Stats(node.ID, nil))
		must(client.Nodes().ToggleEligibility(node.ID, false, nil))
		must(client.Nodes().ToggleEligibility(node.ID, true, nil))
	})
	step("node pool", func() {
		pool := &api.NodePool{Name: "go-pool", NodeIdentityTTL: 48 * time.Hour}
		must(client.NodePools().Register(pool, nil))
		found := must2(client.NodePools().Info("go-pool", nil))
		check(found.NodeIdentityTTL == 48*time.Hour, "ttl", found.NodeIdentityTTL)
		must2(client.NodePools().List(nil))
	})
	step("namespace", func() {
		must(client.Namespaces().Register(&api.Namespace{Name: "go-ns"}, nil))
		must2(client.Namespaces().List(nil))
		must(client.Namespaces().Delete("go-ns", nil))
	})
	step("variables", func() {
		variable := &api.Variable{Path: "go/x", Items: map[string]string{"a": "1"}}
		must2(client.Variables().Create(variable, nil))
		must2(client.Variables().Read("go/x", nil))
		must2(client.Variables().List(nil))
	})
	step("host volume", func() {
		volume := &api.HostVolume{Name: "go-volume", PluginID: "mkdir"}
		request := &api.HostVolumeCreateRequest{Volume: volume}
		made, _, err := client.HostVolumes().Create(request, nil)
		check(must(made, err).Volume.Namespace == "default", "in the default namespace")
		must2(client.HostVolumes().List(&api.HostVolumeListRequest{}, nil))
	})
	step("events", func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		topics := map[api.Topic][]string{api.TopicEvaluation: {"*"}, api.TopicAllocation: {"*"}, api.TopicJob: {"*"}}
		frames := must(client.EventStream().Stream(ctx, topics, 0, nil))
		seen := map[api.Topic]bool{}
		for frame := range frames {
			must(frame, frame.Err)
			for _, event := range frame.Events {
				seen[event.Topic] = true
				switch event.Topic {
				case api.TopicEvaluation:
					must(event.Evaluation())
				case api.TopicAllocation:
					must(event.Allocation())
				case api.TopicJob:
					must(event.Job())
				}
			}
			if len(seen) == 3 {
				return
			}
		}
		panic("the stream ended")
	})
	step("operator", func() {
		must2(client.Operator().SchedulerGetConfiguration(nil))
		must2(client.Operator().AutopilotServerHealth(nil))
		must(client.Operator().RaftGetConfiguration(nil))
		must(client.Agent().Self())
		members := must(client.Agent().Members())
		joined := must(client.Agent().Join(fmt.Sprintf("%s:%d", members.Members[0].Addr, members.Members[0].Port)))
		check(joined == 1, "joined", joined)
		must(0, client.System().GarbageCollect())
	})
	step("evaluations deleted by a filter", func() {
		config := must2(client.Operator().SchedulerGetConfiguration(nil)).SchedulerConfig
		config.PauseEvalBroker = true
		must2(client.Operator().SchedulerSetConfiguration(config, nil))
		ofService := &api.QueryOptions{Filter: `JobID == "go-service"`}
		before, _, err := evals.List(ofService)
		must(before, err)
		request := &api.EvalDeleteRequest{Filter: `JobID == "go-dispatch" or JobID == "go-service"`}
		done := must2(evals.DeleteOpts(request, nil))
		config.PauseEvalBroker = false
		must2(client.Operator().SchedulerSetConfiguration(config, nil))
		left, _, err := evals.List(ofService)
		for _, one := range must(left, err) { // none but those made after the deletion
			for _, deleted := range before {
				check(one.ID != deleted.ID, "deleted", done.Count, one)
			}
		}
		check(done.Count > 0, "deleted", done.Count)
	})
	step("deregister", func() { must2(jobs.Deregister("go-service", true, nil)) })
}

// must2 drops the query's or write's meta data.
func must2[T, M any](value T, _ M, err error) T { return must(value, err) }
