package main

import "time"

// app is a program whose lock is replaced: a module with a sync.RWMutex on its
// hot path.
type app struct {
	module, version string
	packages        []appPackage
	tests           time.Duration // about how long its tests take
	why             string        // which of its benchmarks are not run, and why
}

// appPackage is a package of a program whose tests are run. Benchmarks are
// named without "Benchmark", with spaces between them.
type appPackage struct {
	dir        string // below that of the module
	benchmarks string
	quick      string // those of them that -quick runs

	// racing are those in which one goroutine writes while others read or
	// write. Without a lock they crash or do something else.
	racing string

	targets map[string]float64 // for the ratio
}

var apps = []app{
	{
		module: "github.com/patrickmn/go-cache", version: "v2.1.0+incompatible",
		packages: []appPackage{{
			benchmarks: "CacheGetExpiring CacheGetConcurrentExpiring CacheGetManyConcurrentExpiring " +
				"ShardedCacheGetExpiring ShardedCacheGetManyConcurrentExpiring " +
				"CacheSetExpiring CacheSetDelete CacheSetDeleteSingleLock IncrementInt " +
				"RWMutexMapGet RWMutexMapGetConcurrent RWMutexMapSet RWMutexMapSetDelete",
			quick:   "CacheGetExpiring CacheGetConcurrentExpiring CacheSetExpiring CacheSetDelete IncrementInt",
			targets: map[string]float64{"CacheSetDelete": 0.75},
		}},
		tests: time.Second,
		why:   "NotExpiring, RWMutexInterfaceMap and RWMutexMapSetDeleteSingleLock, which differ from others in what is done beside the lock only; DeleteExpiredLoop, which takes the lock once in milliseconds",
	},
	{
		module: "github.com/orcaman/concurrent-map/v2", version: "v2.0.1",
		packages: []appPackage{{
			benchmarks: "Items Keys SingleInsertAbsent SingleInsertPresent MultiInsertSame MultiGetSame " +
				"MultiInsertDifferent_1_Shard MultiInsertDifferent_32_Shard " +
				"MultiGetSetDifferent_1_Shard MultiGetSetDifferent_32_Shard " +
				"MultiGetSetBlock_1_Shard MultiGetSetBlock_32_Shard",
			quick: "SingleInsertPresent MultiGetSame MultiGetSetBlock_1_Shard MultiGetSetBlock_32_Shard",
			racing: "MultiInsertSame MultiInsertDifferent_1_Shard MultiInsertDifferent_32_Shard " +
				"MultiGetSetDifferent_1_Shard MultiGetSetDifferent_32_Shard " +
				"MultiGetSetBlock_1_Shard MultiGetSetBlock_32_Shard",
		}},
		tests: time.Second,
		why:   "SyncMap and Strconv, which have no lock of the program's; MarshalJson, ItemsInt and ItemsInteger, which are Items with more beside the lock; other numbers of shards",
	},
	{
		module: "github.com/VictoriaMetrics/fastcache", version: "v1.13.2",
		packages: []appPackage{{
			benchmarks: "CacheSet CacheGet CacheHas CacheSetGet",
			quick:      "CacheGet CacheSetGet",
			racing:     "CacheSet CacheSetGet",
		}},
		tests: 8 * time.Second,
		why:   "BigCache, StdMap and SyncMap, which are other caches; SetBig and GetBig, which copy 64 KiB at a time; files. An operation of those here is 65,536 calls",
	},
	{
		module: "github.com/tidwall/buntdb", version: "v1.3.0",
		// A goroutine of each database writes once a second. By then these are
		// done with it, and so can do without a lock.
		packages: []appPackage{{
			benchmarks: "_Get_1 _Get_10 _Set_NoPersist_Sequential_1 _Set_NoPersist_Random_1 _Ascend_1 _Descend_10",
			quick:      "_Get_1 _Set_NoPersist_Sequential_1",
		}},
		tests: 17 * time.Second,
		why:   "Persist, which writes to a file; larger transactions, which take the lock less often",
	},
	{
		module: "github.com/prometheus/client_golang", version: "v1.25.0",
		packages: []appPackage{{
			dir: "prometheus",
			benchmarks: "Counter/labels=values,constraint=no GaugeWithLabelValues HistogramWithLabelValues " +
				"MetricVecWithBasic MetricVecWithLabelValuesBasic MetricVecWithLabelValues2Keys100ValueCardinality " +
				"CounterWithLabelValuesConcurrent",
			quick:  "GaugeWithLabelValues CounterWithLabelValuesConcurrent",
			racing: "CounterWithLabelValuesConcurrent",
		}},
		tests: 23 * time.Second,
		why:   "those without labels, and FindBucket and Write, which do not take that lock; more labels, which take longer beside it",
	},
	{
		module: "github.com/hashicorp/golang-lru/v2", version: "v2.0.7",
		packages: []appPackage{{
			benchmarks: "LRU_Rand LRU_Freq 2Q_Rand 2Q_Freq",
			quick:      "LRU_Rand LRU_Freq",
		}},
		tests: time.Second,
	},
	{
		module: "github.com/allegro/bigcache/v3", version: "v3.1.0",
		packages: []appPackage{{
			benchmarks: "ReadFromCache/1-shards ReadFromCache/512-shards WriteToCache/1-shards WriteToCache/512-shards " +
				"WriteToLimitedCacheWithSmallInitSizeAnd1Shard IterateOverCache/512-shards",
			quick:  "ReadFromCache/1-shards WriteToCache/1-shards",
			racing: "WriteToCache/1-shards WriteToCache/512-shards IterateOverCache/512-shards",
		}},
		tests: 21 * time.Second,
		why:   "other numbers of shards; AppendToCache and ReadFromCacheWithInfo, which are as WriteToCache and ReadFromCache with more beside the lock",
	},
	{
		module: "github.com/jellydator/ttlcache/v3", version: "v3.4.1",
		packages: []appPackage{
			{},
			{
				dir:        "bench",
				benchmarks: "CacheSetWithoutTTL CacheSetWithGlobalTTL",
				quick:      "CacheSetWithoutTTL",
			},
		},
		tests: 4 * time.Second,
	},
	{
		module: "github.com/karlseguin/ccache/v3", version: "v3.0.6",
		packages: []appPackage{{
			benchmarks: "FrequentSets FrequentGets GetWithPromoteSmall GetWithPromoteLarge",
			quick:      "FrequentSets FrequentGets",
			racing:     "FrequentSets GetWithPromoteSmall GetWithPromoteLarge",
		}},
		tests: 4 * time.Second,
	},
	{
		module: "github.com/rcrowley/go-metrics", version: "v0.0.0-20250401214520-65e299d6c5c9",
		packages: []appPackage{{
			benchmarks: "Registry HugeRegistry RegistryParallel",
			quick:      "Registry RegistryParallel",
			racing:     "RegistryParallel",
		}},
		tests: 8 * time.Second,
		why:   "those of the metrics themselves, which do not take that lock",
	},
	{
		module: "github.com/muesli/cache2go", version: "v0.0.0-20221011235721-518229cd8021",
		packages: []appPackage{{
			benchmarks: "NotFoundAdd",
			quick:      "NotFoundAdd",
			racing:     "NotFoundAdd",
		}},
		tests: 4 * time.Second,
	},
}
