// Applies NetworkPolicies to the pods of one node: kube-network-policies decides about the first packet of each
// connection. That project's own program needs nftables' expression `queue` (CONFIG_NFT_QUEUE), which some kernels lack;
// this one gets the packets by iptables' target NFQUEUE. Prints `ready` when policies apply.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/florianl/go-nfqueue/v2"
	"github.com/mdlayher/netlink"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/kube-network-policies/pkg/api"
	"sigs.k8s.io/kube-network-policies/pkg/network"
	"sigs.k8s.io/kube-network-policies/pkg/networkpolicy"
	"sigs.k8s.io/kube-network-policies/pkg/podinfo"
)

// Number of the queue of packets.
const queue = 98

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "network-policies:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	pods, namespaces := factory.Core().V1().Pods(), factory.Core().V1().Namespaces()
	resolver, err := podinfo.NewInformerResolver(pods.Informer())
	if err != nil {
		return fmt.Errorf("find pods by address: %w", err)
	}
	policies := networkpolicy.NewStandardNetworkPolicy("", namespaces, pods, factory.Networking().V1().NetworkPolicies())
	provider := podinfo.NewInformerProvider(pods, namespaces, nil, []podinfo.IPResolver{resolver})
	engine := networkpolicy.NewPolicyEngine(provider, []api.PolicyEvaluator{policies})
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	for !engine.Ready() {
		time.Sleep(50 * time.Millisecond)
	}
	return enforce(ctx, engine.EvaluatePacket)
}

// Asks `evaluate` about the first packet of each connection that this node forwards. What the node sends by itself, as
// the kubelet's probes, no policy concerns.
func enforce(ctx context.Context, evaluate func(context.Context, *network.Packet) (bool, error)) error {
	queued, err := nfqueue.Open(&nfqueue.Config{
		NfQueue: queue, MaxPacketLen: 128, MaxQueueLen: 1024, Copymode: nfqueue.NfQnlCopyPacket,
		Flags: nfqueue.NfQaCfgFlagGSO, WriteTimeout: time.Second,
	})
	if err != nil {
		return fmt.Errorf("open the queue of packets: %w", err)
	}
	defer queued.Close()
	decide := func(packet nfqueue.Attribute) int {
		verdict := nfqueue.NfDrop
		parsed, err := network.ParsePacket(*packet.Payload)
		if err == nil {
			var allowed bool
			if allowed, err = evaluate(ctx, &parsed); allowed {
				verdict = nfqueue.NfAccept
			}
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "network-policies: drop a packet:", err)
		}
		if err := queued.SetVerdict(*packet.PacketID, verdict); err != nil {
			fmt.Fprintln(os.Stderr, "network-policies: decide:", err)
		}
		return 0
	}
	failed := func(err error) int {
		var failure *netlink.OpError
		if errors.As(err, &failure) && (failure.Timeout() || failure.Temporary()) {
			return 0
		}
		fmt.Fprintln(os.Stderr, "network-policies: receive:", err)
		return 0
	}
	if err := queued.RegisterWithErrorFunc(ctx, decide, failed); err != nil {
		return fmt.Errorf("receive packets: %w", err)
	}
	// After the queue: packets for one that nobody reads are dropped.
	rule := "FORWARD -m conntrack --ctstate NEW -j NFQUEUE --queue-num " + strconv.Itoa(queue)
	if err := iptables("-A " + rule); err != nil {
		return err
	}
	fmt.Println("ready")
	<-ctx.Done()
	return iptables("-D " + rule)
}

func iptables(rule string) error {
	words := append([]string{"--wait", "--table", "mangle"}, strings.Fields(rule)...)
	if printed, err := exec.Command("iptables", words...).CombinedOutput(); err != nil {
		return fmt.Errorf("iptables %s: %w: %s", rule, err, printed)
	}
	return nil
}
