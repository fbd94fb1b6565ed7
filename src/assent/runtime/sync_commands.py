"""The commands that block, by noun: each is the asynchronous one of the same name, waited for.

Written by `make sync` from the commands of `OrgRuntime`; a test compares.
"""

from assent.runtime.administration_commands import (
    ChainCommands,
    MailTemplateCommands,
    PartitionCommands,
    PreferenceCommands,
    RuleCommands,
    SecretCommands,
    ServiceCommands,
    SettingCommands,
    SigningSecretCommands,
)
from assent.runtime.approval_commands import ApprovalCommands, FormCommands
from assent.runtime.attachment_commands import AttachmentCommands
from assent.runtime.audit_commands import AuditCommands
from assent.runtime.blocking import (
    RunCommand,
    SyncCommands,
    blocking,
    blocking_submission,
    blocking_submissions,
)
from assent.runtime.comment_commands import CommentCommands, QuestionCommands
from assent.runtime.definition_commands import DefinitionCommands, DraftCommands
from assent.runtime.document_commands import DocumentCommands, RequirementCommands
from assent.runtime.event_commands import EventCommands, EventSourceCommands, RequestCommands
from assent.runtime.filter_commands import FilterCommands
from assent.runtime.instance_commands import EntityCommands, InstanceCommands
from assent.runtime.operation_commands import DeadLetterCommands, OperationCommands
from assent.runtime.people_commands import DelegationCommands, KeyCommands, MemberCommands, RoleCommands
from assent.runtime.resource_commands import ResourceCommands
from assent.runtime.schedule_commands import ScheduleCommands
from assent.runtime.task_commands import TaskCommands
from assent.runtime.verb_commands import VerbCommands


class SyncApprovalCommands(SyncCommands):
    """Commands to the approval requests of an org, the inbox of the actor, and what the actor may read."""

    get = blocking(ApprovalCommands.get)
    inbox = blocking(ApprovalCommands.inbox)
    count_inbox = blocking(ApprovalCommands.count_inbox)
    decide = blocking(ApprovalCommands.decide)
    reassign = blocking(ApprovalCommands.reassign)
    claim = blocking(ApprovalCommands.claim)
    release = blocking(ApprovalCommands.release)


class SyncAttachmentCommands(SyncCommands):
    """The files attached to the entities of an org."""

    list = blocking(AttachmentCommands.list)
    add = blocking(AttachmentCommands.add)
    open = blocking(AttachmentCommands.open)
    download = blocking(AttachmentCommands.download)
    remove = blocking(AttachmentCommands.remove)
    erase = blocking(AttachmentCommands.erase)


class SyncAuditCommands(SyncCommands):
    """The audit log of an org: who did what, to what, when, by which way and why."""

    search = blocking(AuditCommands.search)


class SyncChainCommands(SyncCommands):
    """The approval chains of an org."""

    list = blocking(ChainCommands.list)
    get = blocking(ChainCommands.get)
    save = blocking(ChainCommands.save)


class SyncCommentCommands(SyncCommands):
    """The comments on the entities of an org, for all who may read the entity."""

    list = blocking(CommentCommands.list)
    add = blocking(CommentCommands.add)


class SyncDeadLetterCommands(SyncCommands):
    """Commands to the dead letters of an org. All take `workflows:retry`, and to discard one `workflows:repair`."""

    list = blocking(DeadLetterCommands.list)
    retry = blocking(DeadLetterCommands.retry)
    retry_all = blocking(DeadLetterCommands.retry_all)
    discard = blocking(DeadLetterCommands.discard)


class SyncDefinitionCommands(SyncCommands):
    """Commands to the definitions of an org. Instances that are running keep the version that they started with."""

    publish = blocking(DefinitionCommands.publish)
    check = blocking(DefinitionCommands.check)
    list = blocking(DefinitionCommands.list)
    get = blocking(DefinitionCommands.get)
    workflows = blocking(DefinitionCommands.workflows)
    draw = blocking(DefinitionCommands.draw)
    list_versions = blocking(DefinitionCommands.list_versions)
    archive = blocking(DefinitionCommands.archive)
    roll_back = blocking(DefinitionCommands.roll_back)


class SyncDelegationCommands(SyncCommands):
    """The delegations of an org: members who decide in the place of others."""

    list = blocking(DelegationCommands.list)
    create = blocking(DelegationCommands.create)
    revoke = blocking(DelegationCommands.revoke)


class SyncDocumentCommands(SyncCommands):
    """The documents of an org."""

    create = blocking(DocumentCommands.create)
    add_version = blocking(DocumentCommands.add_version)
    open = blocking(DocumentCommands.open)
    download = blocking(DocumentCommands.download)
    link = blocking(DocumentCommands.link)
    verify = blocking(DocumentCommands.verify)
    reject = blocking(DocumentCommands.reject)
    erase = blocking(DocumentCommands.erase)
    get = blocking(DocumentCommands.get)
    list = blocking(DocumentCommands.list)


class SyncDraftCommands(SyncCommands):
    """The drafts of an org: flows and patches that are being written, valid or not; they never run."""

    get = blocking(DraftCommands.get)
    create = blocking(DraftCommands.create)
    change = blocking(DraftCommands.change)
    discard = blocking(DraftCommands.discard)
    publish = blocking(DraftCommands.publish)


class SyncEntityCommands(SyncCommands):
    """Commands to the entities of an org, and what the actor may read of them; without one, the system reads."""

    get = blocking(EntityCommands.get)
    list = blocking(EntityCommands.list)
    count = blocking(EntityCommands.count)
    contract = blocking(EntityCommands.contract)
    indexes = blocking(EntityCommands.indexes)
    versions = blocking(EntityCommands.versions)
    compare = blocking(EntityCommands.compare)
    audit = blocking(EntityCommands.audit)
    decisions = blocking(EntityCommands.decisions)
    mutate = blocking(EntityCommands.mutate)
    mutate_many = blocking(EntityCommands.mutate_many)
    transition = blocking(EntityCommands.transition)


class SyncEventSourceCommands(SyncCommands):
    """Sources of signed events, by the prefix of their keys; all take `events:sources`."""

    list = blocking(EventSourceCommands.list)
    create = blocking(EventSourceCommands.create)
    rotate = blocking(EventSourceCommands.rotate)
    retire = blocking(EventSourceCommands.retire)
    delete = blocking(EventSourceCommands.delete)


class SyncEventCommands(SyncCommands):
    """Commands about events of an org."""

    emit = blocking(EventCommands.emit)
    list_open = blocking(EventCommands.list_open)


class SyncFilterCommands(SyncCommands):
    """The saved filters of the actor and of the org; `filter_of` is an entity type, or `inbox`."""

    list = blocking(FilterCommands.list)
    get = blocking(FilterCommands.get)
    save = blocking(FilterCommands.save)
    delete = blocking(FilterCommands.delete)


class SyncFormCommands(SyncCommands):
    """Commands to the forms of an org; a form is completed with `instances.advance`."""

    get = blocking(FormCommands.get)
    claim = blocking(FormCommands.claim)
    release = blocking(FormCommands.release)
    save_draft = blocking(FormCommands.save_draft)
    reassign = blocking(FormCommands.reassign)


class SyncInstanceCommands(SyncCommands):
    """Commands to the instances of an org, and what the actor may read of them; without one, the system reads."""

    get = blocking(InstanceCommands.get)
    path = blocking(InstanceCommands.path)
    step = blocking(InstanceCommands.step)
    approvals = blocking(InstanceCommands.approvals)
    list = blocking(InstanceCommands.list)
    count = blocking(InstanceCommands.count)
    history = blocking(InstanceCommands.history)
    start = blocking(InstanceCommands.start)
    start_many = blocking(InstanceCommands.start_many)
    advance = blocking(InstanceCommands.advance)
    cancel = blocking(InstanceCommands.cancel)
    pause = blocking(InstanceCommands.pause)
    resume = blocking(InstanceCommands.resume)
    retry = blocking(InstanceCommands.retry)
    skip = blocking(InstanceCommands.skip)
    cancel_token = blocking(InstanceCommands.cancel_token)
    edit_variables = blocking(InstanceCommands.edit_variables)
    force_fail = blocking(InstanceCommands.force_fail)


class SyncKeyCommands(SyncCommands):
    """The API keys of an org: made and shown once, listed, revoked."""

    list = blocking(KeyCommands.list)
    create = blocking(KeyCommands.create)
    revoke = blocking(KeyCommands.revoke)


class SyncMailTemplateCommands(SyncCommands):
    """What an org writes in place of our mails, by kind and language; all of it takes `org:manage`."""

    list = blocking(MailTemplateCommands.list)
    get = blocking(MailTemplateCommands.get)
    save = blocking(MailTemplateCommands.save)
    delete = blocking(MailTemplateCommands.delete)
    preview = blocking(MailTemplateCommands.preview)


class SyncMemberCommands(SyncCommands):
    """The members of an org: people and service accounts."""

    list = blocking(MemberCommands.list)
    get = blocking(MemberCommands.get)
    create = blocking(MemberCommands.create)
    change = blocking(MemberCommands.change)
    deactivate = blocking(MemberCommands.deactivate)
    restore = blocking(MemberCommands.restore)


class SyncOperationCommands(SyncCommands):
    """Repairs of the instances of an org, for operators. The caller checks that the actor may make them."""

    rebuild = blocking(OperationCommands.rebuild)
    fold = blocking(OperationCommands.fold)
    compare = blocking(OperationCommands.compare)
    stuck = blocking(OperationCommands.stuck)
    health = blocking(OperationCommands.health)
    reenqueue = blocking(OperationCommands.reenqueue)
    nodes = blocking(OperationCommands.nodes)
    incidents = blocking(OperationCommands.incidents)
    list_incidents = blocking(OperationCommands.list_incidents)


class SyncPartitionCommands(SyncCommands):
    """The partitions of an org: they are not kept by themselves, one is there when something is in it."""

    list = blocking(PartitionCommands.list)


class SyncPreferenceCommands(SyncCommands):
    """How the actor is written to; each sets their own."""

    get = blocking(PreferenceCommands.get)
    change = blocking(PreferenceCommands.change)


class SyncQuestionCommands(SyncCommands):
    """Questions of approvers to originators, and the answers."""

    list = blocking(QuestionCommands.list)
    get = blocking(QuestionCommands.get)
    ask = blocking(QuestionCommands.ask)
    answer = blocking(QuestionCommands.answer)


class SyncRequestCommands(SyncCommands):
    """Commands to the outside requests of an org."""

    list = blocking(RequestCommands.list)
    get = blocking(RequestCommands.get)
    push_result = blocking(RequestCommands.push_result)
    push_bundle = blocking(RequestCommands.push_bundle)
    upload_link = blocking(RequestCommands.upload_link)
    revoke_upload_links = blocking(RequestCommands.revoke_upload_links)


class SyncRequirementCommands(SyncCommands):
    """The documents that an org requires."""

    create = blocking(RequirementCommands.create)
    get = blocking(RequirementCommands.get)
    list = blocking(RequirementCommands.list)
    count = blocking(RequirementCommands.count)
    solicit = blocking(RequirementCommands.solicit)
    waive = blocking(RequirementCommands.waive)
    reset = blocking(RequirementCommands.reset)
    list_codes = blocking(RequirementCommands.list_codes)
    save_code = blocking(RequirementCommands.save_code)


class SyncResourceCommands(SyncCommands):
    """The resources that tasks use. They belong to no org; what waits is counted for the org alone."""

    list = blocking(ResourceCommands.list)
    get = blocking(ResourceCommands.get)


class SyncRoleCommands(SyncCommands):
    """The roles of an org and their capabilities, beside what contracts grant; all commands take `roles:manage`."""

    list = blocking(RoleCommands.list)
    get = blocking(RoleCommands.get)
    save = blocking(RoleCommands.save)
    grant = blocking(RoleCommands.grant)
    revoke = blocking(RoleCommands.revoke)


class SyncRuleCommands(SyncCommands):
    """The rules of an org around actions, and the history of their evaluations."""

    list = blocking(RuleCommands.list)
    get = blocking(RuleCommands.get)
    save = blocking(RuleCommands.save)
    delete = blocking(RuleCommands.delete)
    list_evaluations = blocking(RuleCommands.list_evaluations)


class SyncScheduleCommands(SyncCommands):
    """The schedules of an org. Reading takes `schedules:read`, the others `schedules:manage`."""

    list = blocking(ScheduleCommands.list)
    get = blocking(ScheduleCommands.get)
    next = blocking(ScheduleCommands.next)
    save = blocking(ScheduleCommands.save)
    pause = blocking(ScheduleCommands.pause)
    resume = blocking(ScheduleCommands.resume)
    delete = blocking(ScheduleCommands.delete)
    run = blocking(ScheduleCommands.run)


class SyncSecretCommands(SyncCommands):
    """The secrets that definitions name. No command returns a value; none works inside a caller's transaction."""

    list = blocking(SecretCommands.list)
    set = blocking(SecretCommands.set)
    delete = blocking(SecretCommands.delete)


class SyncServiceCommands(SyncCommands):
    """The services that steps may call. Credentials for them are in the application, and shown nowhere."""

    list = blocking(ServiceCommands.list)


class SyncSettingCommands(SyncCommands):
    """The settings of an org. The tag of what was read keeps a change from overwriting another one."""

    read = blocking(SettingCommands.read)
    save = blocking(SettingCommands.save)
    change = blocking(SettingCommands.change)
    test_alert = blocking(SettingCommands.test_alert)


class SyncSigningSecretCommands(SyncCommands):
    """The secrets that sign the webhooks of an org. None works inside a caller's transaction."""

    list = blocking(SigningSecretCommands.list)
    rotate = blocking(SigningSecretCommands.rotate)
    retire = blocking(SigningSecretCommands.retire)


class SyncTaskCommands(SyncCommands):
    """Commands to the tasks of an org."""

    submit = blocking_submission(TaskCommands.submit)
    submit_many = blocking_submissions(TaskCommands.submit_many)
    submit_batch = blocking_submission(TaskCommands.submit_batch)
    tree = blocking(TaskCommands.tree)
    handle = blocking_submission(TaskCommands.handle)
    get = blocking(TaskCommands.get)
    log = blocking(TaskCommands.log)
    list = blocking(TaskCommands.list)
    cancel = blocking(TaskCommands.cancel)
    complete = blocking(TaskCommands.complete)
    fail = blocking(TaskCommands.fail)
    retry = blocking(TaskCommands.retry)
    retry_all = blocking(TaskCommands.retry_all)


class SyncVerbCommands(SyncCommands):
    """The verbs of an application, bound to an org and an actor."""

    list = blocking(VerbCommands.list)
    run = blocking(VerbCommands.run)


class SyncNouns:
    """The commands of an org by noun."""

    def __init__(self, run: RunCommand) -> None:
        self.approvals = SyncApprovalCommands(run, "approvals")
        self.attachments = SyncAttachmentCommands(run, "attachments")
        self.audit = SyncAuditCommands(run, "audit")
        self.chains = SyncChainCommands(run, "chains")
        self.comments = SyncCommentCommands(run, "comments")
        self.dead_letters = SyncDeadLetterCommands(run, "dead_letters")
        self.definitions = SyncDefinitionCommands(run, "definitions")
        self.delegations = SyncDelegationCommands(run, "delegations")
        self.documents = SyncDocumentCommands(run, "documents")
        self.drafts = SyncDraftCommands(run, "drafts")
        self.entities = SyncEntityCommands(run, "entities")
        self.event_sources = SyncEventSourceCommands(run, "event_sources")
        self.events = SyncEventCommands(run, "events")
        self.filters = SyncFilterCommands(run, "filters")
        self.forms = SyncFormCommands(run, "forms")
        self.instances = SyncInstanceCommands(run, "instances")
        self.keys = SyncKeyCommands(run, "keys")
        self.mail_templates = SyncMailTemplateCommands(run, "mail_templates")
        self.members = SyncMemberCommands(run, "members")
        self.operations = SyncOperationCommands(run, "operations")
        self.partitions = SyncPartitionCommands(run, "partitions")
        self.preferences = SyncPreferenceCommands(run, "preferences")
        self.questions = SyncQuestionCommands(run, "questions")
        self.requests = SyncRequestCommands(run, "requests")
        self.requirements = SyncRequirementCommands(run, "requirements")
        self.resources = SyncResourceCommands(run, "resources")
        self.roles = SyncRoleCommands(run, "roles")
        self.rules = SyncRuleCommands(run, "rules")
        self.schedules = SyncScheduleCommands(run, "schedules")
        self.secrets = SyncSecretCommands(run, "secrets")
        self.services = SyncServiceCommands(run, "services")
        self.settings = SyncSettingCommands(run, "settings")
        self.signing_secrets = SyncSigningSecretCommands(run, "signing_secrets")
        self.tasks = SyncTaskCommands(run, "tasks")
        self.verbs = SyncVerbCommands(run, "verbs")
